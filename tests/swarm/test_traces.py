"""Turns as OpenTelemetry spans, of a real run with two workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from loadgen.clock import NS_PER_MS

from .conftest import Swarm


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP and keeps the bodies."""

    bodies: list[bytes]

    def spans(self) -> list[Any]:
        parsed = (ExportTraceServiceRequest.FromString(body) for body in self.bodies)
        return [
            span
            for request in parsed
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.bodies.append(body)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector(("127.0.0.1", 0), Handler) as server:
        server.bodies = []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_each_turn_is_a_span_with_its_milestones_and_nothing_secret(
    swarm: Swarm, mock_agent: Any, collector: Collector, free_port: int
) -> None:
    agent = mock_agent()
    plan = swarm.plan.read_text()
    bearer = '{ method = "bearer", env = "AGENT_TOKEN" }'
    swarm.plan.write_text(plan.replace('{ method = "session", template = "analyst-{n}" }', bearer))
    url = f"http://127.0.0.1:{collector.server_port}/v1/traces"
    done = swarm.run(
        "--host", agent.url, "--headless", "-u", "10", "-r", "10", "-t", "4s", "--traces", url,
        "--processes", "2", "--master-bind-port", str(free_port), "--master-port", str(free_port),
        AGENT_TOKEN="sesame-opens",
    )  # fmt: skip
    assert done.returncode in (0, 6), done.stdout + done.stderr
    rows = {turn: copies[0] for turn, copies in swarm.rows().items()}
    spans = {span.trace_id.hex(): span for span in collector.spans()}
    assert len(collector.spans()) == len(spans)
    assert set(spans) == set(rows)
    assert len({row["worker"] for row in rows.values()}) == 2
    for turn, span in spans.items():
        row, attributes = rows[turn], {a.key: a.value for a in span.attributes}
        assert span.span_id.hex() == turn[16:]
        assert span.parent_span_id == b""
        assert attributes["loadgen.outcome"].string_value == row["outcome"]
        took_ms = (span.end_time_unix_nano - span.start_time_unix_nano) / NS_PER_MS
        assert took_ms == pytest.approx(row["ended_ms"], abs=1e-3)
        events = {event.name: event.time_unix_nano for event in span.events}
        for name in ("first_progress", "first_answer"):
            if f"{name}_ms" in row:
                at_ms = (events[name] - span.start_time_unix_nano) / NS_PER_MS
                assert at_ms == pytest.approx(row[f"{name}_ms"], abs=1e-3)
    assert any("prompt" in {event.name for event in span.events} for span in spans.values())
    everything = b"".join(collector.bodies)
    for secret in (b"sesame", b"analyst-", b"What is new", b"cookie", b"uthorization"):
        assert secret not in everything
    assert done.stderr.count("spans delivered") == 2, done.stderr


def test_a_dead_collector_spoils_no_run_and_is_counted(swarm: Swarm, mock_agent: Any) -> None:
    agent = mock_agent()
    done = swarm.run(
        "--host", agent.url, "--headless", "-u", "4", "-r", "4", "-t", "2s",
        "--traces", "http://127.0.0.1:9/v1/traces",
    )  # fmt: skip
    assert done.returncode in (0, 5, 6), done.stdout + done.stderr
    number = len(swarm.rows())
    assert f"{number} of {number} spans were not delivered" in done.stderr


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("127.0.0.1:4318", "--traces takes http://HOST:4318/v1/traces"),
        ("http://me:secret@127.0.0.1:4318/v1/traces", "OTEL_EXPORTER_OTLP_HEADERS"),
    ],
)
def test_what_is_no_collector_is_refused_in_one_line(swarm: Swarm, url: str, words: str) -> None:
    done = swarm.run("--headless", "-u", "1", "-t", "1s", "--traces", url)
    assert done.returncode == 2
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("loadgen: ")]
    assert words in line
    assert "secret" not in line
