"""What Prometheus is told, and what the dashboard and the documents make of it."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from watched import LOST, figures, row, tally

from loadgen.errors import ConfigError
from loadgen.live import Figures, Scope
from loadgen.swarm.exposition import Exposition, serve

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "monitoring"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(told: Figures | None) -> Samples:
    registry = CollectorRegistry()
    registry.register(Exposition(lambda: told))
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def busy() -> Figures:
    whole = tally(
        row(1_999.0),
        row(2_000.0),
        row(2_000.5),
        row(outcome="failed", cause="agent_error"),
        row(recovered=True, **LOST),
    )
    return figures(whole=whole, recent=whole)


def test_a_bucket_ends_exactly_at_the_target() -> None:
    found = scraped(busy())
    bucket = "loadgen_turn_clock_seconds_bucket"
    at = {
        float(dict(labels)["le"]): value
        for (name, labels), value in found.items()
        if name == bucket and ("clock", "ttfv") in labels
    }
    assert (at[1.8], at[2.0], at[2.2], at[float("inf")]) == (0, 2, 3, 3)
    assert list(at.values()) == sorted(at.values())
    total = found["loadgen_turn_clock_seconds_sum", (("clock", "ttfv"),)]
    assert total == pytest.approx(5.9995)
    assert found["loadgen_target_met_ratio", (("clock", "ttfv"), ("within", "2s"))] == 0.5


def test_outcomes_recovery_and_turns_under_way_are_told() -> None:
    found = scraped(busy())
    failed = (("cause", "agent_error"), ("outcome", "failed"))
    assert found["loadgen_turns_total", failed] == 1
    assert found["loadgen_turns_in_flight", (("standing", "working"),)] == 40
    assert found["loadgen_connections_lost_total", ()] == 1
    assert found["loadgen_turns_recovered_total", ()] == 1
    assert found["loadgen_generator_fit", ()] == 1
    recovery = (("clock", "recovery"), ("quantile", "0.95"))
    assert found["loadgen_recent_clock_seconds", recovery] == pytest.approx(0.5, rel=0.01)


def test_the_agents_of_an_ab_run_have_a_label() -> None:
    base, new = tally(row(500.0)), tally(row(900.0), row(2_500.0))
    found = scraped(figures(sides=(Scope("baseline", base, base), Scope("candidate", new, new))))
    count = "loadgen_turn_clock_seconds_count"
    assert found[count, (("clock", "ttfp"), ("side", "candidate"))] == 2
    assert found[count, (("clock", "ttfp"), ("side", "baseline"))] == 1
    assert (count, (("clock", "ttfp"),)) not in found


def test_without_a_run_there_is_nothing_but_that() -> None:
    assert scraped(None) == {("loadgen_run_active", ()): 0.0}
    assert scraped(figures(over=True))["loadgen_run_active", ()] == 0.0
    assert scraped(figures())["loadgen_run_active", ()] == 1.0


# gevent leaves the socket that it could not bind to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_it_is_served_on_loopback_and_a_taken_port_is_said_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"--metrics-port: cannot listen on 127.0.0.1:{port}"
        ):
            serve("127.0.0.1", port, figures)
    server = serve("127.0.0.1", 0, figures)
    assert server.server_host == "127.0.0.1"
    server.stop()


def known() -> set[str]:
    return {name for name, _ in scraped(busy())}


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are() -> None:
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    asked = [target for panel in dashboard["panels"] for target in panel["targets"]]
    labels: dict[str, set[str]] = {}
    for name, pairs in scraped(busy()):
        labels.setdefault(name, set()).update(key for key, _ in pairs)
    for target in (*asked, *dashboard["annotations"]["list"]):
        names = re.findall(r"loadgen_\w+", target["expr"])
        shown = re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))
        filtered = re.findall(r"(\w+)[=!]~?\"", target["expr"])
        assert names, target
        for name in names:
            assert {*shown, *filtered} <= labels[name], target
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


def test_every_metric_is_documented() -> None:
    text = (MONITORING / "README.md").read_text()
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in known()}
    assert not [name for name in sorted(families) if f"`{name}`" not in text]
