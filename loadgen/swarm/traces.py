"""Turns as OpenTelemetry spans, for ``--traces``: one a turn, with an event a milestone.

Only what we measured goes out: never a header, an identity, a question or a word of the server.
Spans wait in a list and leave in small batches from a greenlet of their own, so that the hub is
never busy with them for long; what cannot be delivered is counted and said.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import gevent

from loadgen import __version__
from loadgen.clock import now_ns, wall_ns
from loadgen.errors import ConfigError
from loadgen.trace import span_id, trace_id
from loadgen.turn import Milestone, Outcome, TurnRecord

_log = logging.getLogger(__name__)

_BATCH = 32
_EVERY_S = 1.0
_MOST_WAITING = 20_000
_FLUSH_S = 5.0
_SEND_S = 5.0

_PLAIN = ("conversation", "scenario", "dialect", "route", "worker", "analyst_group", "side")
_COUNTS = ("number", "chunks", "steps", "events", "bytes", "answer_chars", "polls", "asked_again")


def check_endpoint(url: str) -> None:
    """Raise ConfigError for what is no OTLP endpoint, or where the packages are missing."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"--traces takes http://HOST:4318/v1/traces, got {url!r}")
    if parts.username or parts.password:
        raise ConfigError(
            "--traces must not hold credentials; put them into OTEL_EXPORTER_OTLP_HEADERS"
        )
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401 - are they there?
    except ImportError as error:
        raise ConfigError(f"--traces needs pip install 'loadgen[traces]': {error}") from None


class Traces:
    """The spans of one run in one process, to the collector at ``url`` (OTLP over HTTP)."""

    def __init__(self, url: str, run: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self.sent = self.lost = 0
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=_SEND_S)
        self._resource = Resource.create(
            {"service.name": "loadgen", "service.version": __version__, "loadgen.run": run}
        )
        self._scope = InstrumentationScope("loadgen", __version__)
        self._waiting: deque[TurnRecord] = deque()
        self._greenlet: Any = gevent.spawn(self._run)

    def add(self, record: TurnRecord) -> None:
        """A turn has ended.  An arrival that was dropped was never asked: it has no span."""
        if not record.timeline.at[Milestone.STARTED]:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self.lost += 1
        else:
            self._waiting.append(record)

    def close(self) -> None:
        """The run is over: send what is left, as far as that is possible within some seconds."""
        self._greenlet.kill()
        with gevent.Timeout(_FLUSH_S, False):
            while self._waiting:
                self._send()
        self.lost += len(self._waiting)
        self._waiting.clear()
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # of the SDK
        total = self.sent + self.lost
        if self.lost:
            _log.warning("traces: %d of %d spans were not delivered", self.lost, total)
        else:
            _log.info("traces: %d spans delivered", total)

    def _run(self) -> None:
        while True:
            gevent.sleep(_EVERY_S)
            while self._waiting:
                self._send()
                gevent.sleep(0)

    def _send(self) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        number = min(_BATCH, len(self._waiting))
        batch = [self._span(self._waiting.popleft()) for _ in range(number)]
        # What is under way when the run ends is lost, unless it is said otherwise.
        self.lost += number
        if self._exporter.export(batch) is SpanExportResult.SUCCESS:
            self.lost -= number
            self.sent += number

    def _span(self, record: TurnRecord) -> Any:
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        at, to_wall_ns = record.timeline.at, wall_ns() - now_ns()
        failed = record.outcome not in (Outcome.COMPLETED, Outcome.CUT_OFF)
        cause = record.cause.value if record.cause else ""
        words = f"{record.outcome.value}: {cause}" if cause else record.outcome.value
        return ReadableSpan(
            f"turn {record.dialect}",
            context=SpanContext(
                trace_id(record.turn), span_id(record.turn), is_remote=False,
                trace_flags=TraceFlags(TraceFlags.SAMPLED),
            ),
            resource=self._resource,
            instrumentation_scope=self._scope,
            kind=SpanKind.CLIENT,
            attributes=_attributes(record),
            events=[
                Event(name, attributes=more, timestamp=at_ns + to_wall_ns)
                for at_ns, name, more in sorted(_events(record), key=lambda event: event[0])
            ],
            status=Status(StatusCode.ERROR, words) if failed else Status(StatusCode.OK),
            start_time=at[Milestone.STARTED] + to_wall_ns,
            end_time=at[Milestone.ENDED] + to_wall_ns,
        )  # fmt: skip


def _attributes(record: TurnRecord) -> dict[str, Any]:
    at = record.timeline.at
    found: dict[str, Any] = {
        "loadgen.turn": record.turn,
        "loadgen.outcome": record.outcome.value,
        "loadgen.recovered": record.recovered,
        "loadgen.prompts": len(record.prompts),
        "loadgen.losses": len(record.losses),
    }
    if record.cause is not None:
        found["loadgen.cause"] = record.cause.value
    if record.status is not None:
        found["http.response.status_code"] = record.status
    if at[Milestone.SCHEDULED]:
        found["loadgen.lag_ns"] = at[Milestone.STARTED] - at[Milestone.SCHEDULED]
    for name in (*_PLAIN, *_COUNTS):
        value = getattr(record, name)
        if value not in ("", None):
            found[f"loadgen.{name}"] = value
    return found


def _events(record: TurnRecord) -> Iterator[tuple[int, str, dict[str, str]]]:
    """When each milestone was reached, and what happened beside them."""
    for milestone in Milestone:
        inside = milestone not in (Milestone.SCHEDULED, Milestone.STARTED, Milestone.ENDED)
        if inside and record.timeline.at[milestone]:
            yield record.timeline.at[milestone], milestone.name.lower(), {}
    for prompt in record.prompts:
        yield prompt.paused_ns, "prompt", {"kind": prompt.kind}
        if prompt.replied and prompt.resumed_ns:
            yield prompt.resumed_ns, "reply", {"kind": prompt.kind}
    for loss in record.losses:
        yield loss.lost_ns, "connection_lost", {"during": loss.during}
        if loss.recovered_ns:
            yield loss.recovered_ns, "recovered", {}


def traces_to(url: str, run: str) -> Traces | None:
    """Where the spans of ``run`` go; None: nobody wants them.  Raises ConfigError."""
    if not url:
        return None
    check_endpoint(url)
    return Traces(url, run)
