"""Our options of the locust command line; those of a run are shown in the web UI as well."""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from pathlib import Path
from typing import Any

_LOOPBACK = "127.0.0.1"
_CLUSTERED = ("--worker", "--master")


def add_options(parser: Any, default_plan: Path, *, two_sides: bool = False) -> None:
    """Add our options to Locust's parser (its groups cannot hide or show options in the web UI).

    ``two_sides``: the scenario makes A/B runs.
    """
    parser.add_argument(
        "--plan",
        metavar="FILE",
        env_var="LOADGEN_PLAN",
        default=str(default_plan),
        help="The plan (TOML) that says what the analysts do. Default: the one beside the scenario",
        include_in_web_ui=True,
    )
    parser.add_argument(
        "--run-name",
        metavar="NAME",
        env_var="LOADGEN_RUN_NAME",
        default="",
        help="Name of the run's folder. Default: the plan's name",
        include_in_web_ui=True,
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        env_var="LOADGEN_RESULTS",
        default="results",
        help="Where run folders are made. Default: results",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--live-every",
        metavar="SECONDS",
        type=float,
        env_var="LOADGEN_LIVE_EVERY",
        default=10.0,
        help="Headless and no terminal: a line of live figures so often. Default: 10; 0 for none",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=int,
        env_var="LOADGEN_METRICS_PORT",
        default=None,
        help="Tell Prometheus the figures of the run at http://HOST:PORT/metrics",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--metrics-host",
        metavar="HOST",
        env_var="LOADGEN_METRICS_HOST",
        default="127.0.0.1",
        help="Where --metrics-port listens; others can ask only if it is an address of this "
        "machine, such as 0.0.0.0. Default: 127.0.0.1",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--traces",
        metavar="URL",
        env_var="LOADGEN_TRACES",
        default="",
        help="Send each turn as an OpenTelemetry span to this OTLP endpoint, such as "
        "http://127.0.0.1:4318/v1/traces, and traceparent to the target; needs loadgen[traces]",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--locust-table",
        action="store_true",
        env_var="LOADGEN_LOCUST_TABLE",
        default=False,
        help="Headless: print Locust's own table of requests while the run goes on",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        env_var="LOADGEN_INSECURE",
        default=False,
        help="Accept any TLS certificate of the target",
        include_in_web_ui=True,
    )
    (_add_two_targets if two_sides else _add_one_target)(parser)
    if _forks(sys.argv):
        # On Locust's one well-known port the workers of two runs beside each other change masters.
        port = _free_port()
        parser.set_defaults(master_bind_host=_LOOPBACK, master_bind_port=port, master_port=port)
    parser.add_argument(
        "--disk-reserve",
        metavar="MIB",
        type=int,
        env_var="LOADGEN_DISK_RESERVE",
        default=100,
        help="Stop the run when less than this is free on the disk of --results. Default: 100",
        include_in_web_ui=False,
    )


def _forks(arguments: list[str]) -> bool:
    """Whether all processes of the run are children of this one (`locust --processes`)."""
    words = {word.partition("=")[0] for word in arguments}
    asked = "--processes" in words or "LOCUST_PROCESSES" in os.environ
    return asked and not words.intersection(_CLUSTERED)


@cache
def _free_port() -> int:
    """A local port that nobody listens on; the same whenever a parser of this process is made."""
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def _add_one_target(parser: Any) -> None:
    parser.add_argument(
        "--mock-args",
        metavar="ARGS",
        env_var="LOADGEN_MOCK_ARGS",
        default="",
        help="Options for the bundled mock agent, for example '--slots 8'; only without --host",
        include_in_web_ui=False,
    )


def _add_two_targets(parser: Any) -> None:
    parser.add_argument(
        "--baseline",
        metavar="URL",
        env_var="LOADGEN_BASELINE",
        default="",
        help="The target that is known. Default: a bundled mock agent",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--candidate",
        metavar="URL",
        env_var="LOADGEN_CANDIDATE",
        default="",
        help="The target in question. Default: a bundled mock agent",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--mock-args",
        metavar="ARGS",
        action="append",
        help="Options for both bundled mock agents; twice: the baseline's, the candidate's",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--gate-args",
        metavar="ARGS",
        env_var="LOADGEN_GATE_ARGS",
        default="",
        help="Options for 'loadgen gate', which judges the run, for example '--tolerance-p50 10'",
        include_in_web_ui=False,
    )
