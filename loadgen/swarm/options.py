"""Our options of the locust command line; those of a run are shown in the web UI as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def add_options(parser: Any, default_plan: Path) -> None:
    """Add our options to Locust's parser (its groups cannot hide or show options in the web UI)."""
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
        "--insecure",
        action="store_true",
        env_var="LOADGEN_INSECURE",
        default=False,
        help="Accept any TLS certificate of the target",
        include_in_web_ui=True,
    )
    parser.add_argument(
        "--mock-args",
        metavar="ARGS",
        env_var="LOADGEN_MOCK_ARGS",
        default="",
        help="Options for the bundled mock agent, for example '--slots 8'; only without --host",
        include_in_web_ui=False,
    )
