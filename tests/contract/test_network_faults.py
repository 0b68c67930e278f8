"""One fault of the network, one cause: what each of them looks like to an analyst."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
import trustme
from analyst import QUICK, Analyst, answer, end

from loadgen.dialects.contract import Identity
from loadgen.net.tls import client_context
from loadgen.plan import Deadlines, Reconnect
from loadgen.turn import Cause, Milestone, Outcome, TurnRecord

OK = (Outcome.COMPLETED, None)
CUT = (Outcome.INCOMPLETE, Cause.STREAM_CUT)
STALLED = (Outcome.TIMED_OUT, Cause.STALLED)
UNREACHED = (Outcome.REFUSED, Cause.CONNECT_FAILED)
LIMITED = (Outcome.REFUSED, Cause.RATE_LIMITED)
DOWN = (Outcome.REFUSED, Cause.AGENT_ERROR)
FORBIDDEN = (Outcome.REFUSED, Cause.AUTH_REJECTED)
_SENT = Milestone.SENT
NEVER = Reconnect(policy="none")
QUESTION = "steps=1 step_ms=5 tokens=20 token_ms=4"
SOON: Deadlines = QUICK.model_copy(
    update={"connect_s": 0.25, "first_event_s": 0.25, "silence_s": 0.25, "auth_s": 0.25}
)
LATE = QUICK
OPTIONS = {
    "arag-ws": {"agent": "agent-0001", "token": "none"},
    "arag-http": {"agent": "agent-0001"},
}
KEY = Identity(headers={"x-nuclia-serviceaccount": "Bearer k"})


@dataclass(frozen=True)
class Case:
    """What the mock is told, who asks, and how that ends."""

    faults: tuple[str, ...]
    dialect: str
    end: tuple[Outcome, Cause | None]
    limits: Deadlines = LATE
    facts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.dialect} {' '.join(self.faults)}"


def case(faults: str, dialect: str, end: Any, limits: Deadlines = LATE, **facts: Any) -> Case:
    return Case(tuple(faults.split()), dialect, end, limits, facts)


CASES = [
    # slow, but whole
    *(case("delay_ms=60", d, OK, first_byte_ms=60) for d in ("nat-sse", "nat-ws", "arag-ws")),
    *(case("jitter_ms=60", d, OK) for d in ("nat-sse", "nat-ws", "arag-http")),
    *(case("bytes_s=25000", d, OK, slower_than=25_000) for d in ("nat-sse", "nat-ws", "arag-ws")),
    case("accept_ms=200", "nat-sse", OK, accepted_ms=200),
    *(case("accept_ms=200", d, OK, connect_ms=200) for d in ("nat-ws", "arag-ws")),
    # cut
    *(case("cut_bytes=1500", d, CUT) for d in ("nat-sse", "nat-ws", "arag-http")),
    *(case("reset_bytes=1500", d, CUT) for d in ("nat-sse", "nat-ws", "arag-http")),
    *(case("cut=3", d, CUT, chunks=3) for d in ("nat-sse", "nat-ws", "arag-http")),
    case("cut_bytes=1500", "arag-ws", CUT),
    case("reset_bytes=1500", "arag-ws", CUT),
    case("cut=3", "arag-ws", CUT, chunks=3),
    # nobody there
    *(case("half_open=1", d, STALLED, SOON) for d in ("nat-sse", "nat-poll", "arag-http")),
    *(case("half_open=1", d, UNREACHED, SOON) for d in ("nat-ws", "arag-ws")),
    *(case("stall=3", d, STALLED, SOON, chunks=3) for d in ("nat-sse", "nat-ws", "arag-ws")),
    # a proxy
    *(case("gzip=1", d, OK, encoding="gzip", at_once=True) for d in ("nat-sse", "arag-http")),
    *(case("buffer=1", d, OK, at_once=True) for d in ("nat-sse", "arag-http")),
    case("buffer=1 gzip=1", "nat-sse", OK, encoding="gzip", at_once=True),
    # turned away
    *(case("ws_status=403", d, FORBIDDEN, said="HTTP 403") for d in ("nat-ws", "arag-ws")),
    *(case("ws_status=429 retry_after=7", d, LIMITED, said="429") for d in ("nat-ws", "arag-ws")),
    *(case("ws_status=503", d, UNREACHED, said="HTTP 503") for d in ("nat-ws", "arag-ws")),
    case("ws_status=429", "nat-sse", OK),
    *(case("status=429 retry_after=7", d, LIMITED) for d in ("nat-sse", "nat-poll", "arag-http")),
    *(case("status=503", d, DOWN) for d in ("nat-sse", "nat-poll", "arag-http")),
    case("status=429", "nat-ws", OK),
]


def ask(url: str, spoken: Case, **options: Any) -> TurnRecord:
    known = OPTIONS.get(spoken.dialect)
    analyst = Analyst(
        url, spoken.dialect, deadlines=spoken.limits, reconnect=NEVER,
        options=known, identity=KEY if known else None, **options,
    )  # fmt: skip
    record = analyst.ask(QUESTION)
    analyst.close()
    return record


@pytest.fixture(scope="module")
def mock(shared_mock_agent):
    """One mock, whose faults are set for each case."""
    return shared_mock_agent("--seed", "41")


@pytest.mark.parametrize("spoken", CASES, ids=str)
def test_a_fault_has_its_cause(mock, spoken):
    mock.control(faults=list(spoken.faults))
    record = ask(mock.url, spoken)
    assert end(record) == spoken.end, record.detail
    check(record, spoken)


def check(record: TurnRecord, spoken: Case) -> None:
    """What else must show; times have lower bounds only."""
    facts, at = spoken.facts, record.timeline.at
    if record.outcome is Outcome.COMPLETED:
        assert record.answer is not None
        assert record.answer.startswith(answer(20, "end"))
    if "first_byte_ms" in facts:
        waited_ms = (at[Milestone.FIRST_BYTE] - at[Milestone.SENT]) / 1e6
        assert waited_ms > facts["first_byte_ms"] - 1
    if "accepted_ms" in facts:  # its delay begins before we know that we are connected
        waited_ms = (at[Milestone.FIRST_BYTE] - at[Milestone.STARTED]) / 1e6
        assert waited_ms > facts["accepted_ms"] - 1
    if "connect_ms" in facts:
        (opened,) = record.connections
        assert (opened.connected_ns - opened.begun_ns) / 1e6 > facts["connect_ms"] - 1
    if "slower_than" in facts:
        took_s = (at[Milestone.ENDED] - at[Milestone.STARTED]) / 1e9
        assert took_s > 0.9 * record.bytes / facts["slower_than"]
        assert record.bytes > 2000
    if "at_once" in facts:
        asked, first, ended = (at[m] for m in (_SENT, Milestone.FIRST_ANSWER, Milestone.ENDED))
        assert first - asked > 0.8 * (ended - asked), "something was shown before the end"
    assert record.chunks == facts.get("chunks", record.chunks)
    assert record.content_encoding == facts.get("encoding", record.content_encoding)
    assert facts.get("said", "") in record.detail


def test_a_second_fault_replaces_the_first_and_none_is_none(mock):
    for faults, wanted in (["status=503"], DOWN), (["ws_status=503"], OK), ([], OK):
        mock.control(faults=faults)
        assert end(ask(mock.url, case("", "nat-sse", wanted))) == wanted


def test_faults_of_the_command_line_count_from_the_first_question_on(mock_agent):
    url = mock_agent("--fault", "cut=2", "--fault", "delay_ms=20").url
    record = ask(url, case("", "nat-sse", CUT))
    assert end(record) == CUT
    assert record.chunks == 2
    own = Analyst(url, "nat-sse")
    assert own.ask(f"{QUESTION} cut=5").chunks == 5, "the question says something else"
    own.close()


# certificates


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def certificate(authority, folder, name: str, **options: Any) -> tuple[str, ...]:
    """Arguments of a mock that shows a certificate for ``name``."""
    made = authority.issue_cert(name, **options)
    chain, key = folder / "chain.pem", folder / "key.pem"
    made.private_key_pem.write_to_path(key)
    for number, blob in enumerate(made.cert_chain_pems):
        blob.write_to_path(chain, append=number > 0)
    return "--tls-cert", str(chain), "--tls-key", str(key)


EXPIRED = {
    "not_before": datetime(2020, 1, 1, tzinfo=UTC),
    "not_after": datetime(2021, 1, 1, tzinfo=UTC),
}


@pytest.mark.parametrize(
    ("name", "dates", "known", "said"),
    [
        ("127.0.0.1", {}, True, ""),
        ("127.0.0.1", EXPIRED, True, "certificate has expired"),
        ("elsewhere.example", {}, True, "IP address mismatch"),
        ("127.0.0.1", {}, False, "unable to get local issuer"),
    ],
    ids=["good", "expired", "wrong host", "unknown authority"],
)
def test_a_certificate_is_accepted_or_named(
    mock_agent, authority, tmp_path, name, dates, known, said
):
    agent = mock_agent(*certificate(authority, tmp_path, name, **dates))
    assert agent.url.startswith("https://")
    path = tmp_path / "ca.pem"
    (authority if known else trustme.CA()).cert_pem.write_to_path(path)
    trusting = client_context(ca_file=str(path))
    for dialect in ("nat-sse", "nat-ws", "arag-ws", "arag-http"):
        record = ask(agent.url, case("", dialect, OK), tls=trusting)
        if said:
            assert end(record) == UNREACHED
            assert "certificate not trusted" in record.detail
            assert said in record.detail
        else:
            assert end(record) == OK, record.detail
    insecure: ssl.SSLContext = client_context(verify=False)
    assert end(ask(agent.url, case("", "nat-sse", OK), tls=insecure)) == OK
