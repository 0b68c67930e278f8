"""What a search for the capacity is told on the locust command line."""

from __future__ import annotations

from typing import Any

from loadgen.errors import ConfigError
from loadgen.levels import Capacity, changed


def add_search_options(parser: Any) -> None:
    """Add the options of a scenario that searches; they stand in place of the plan's."""
    add = parser.add_argument
    add("--levels", metavar="N,N,…", default="", include_in_web_ui=True,
        help="Measure these levels instead of searching")  # fmt: skip
    add("--start", metavar="N", type=float, default=None, include_in_web_ui=True,
        help="The first level of the search")  # fmt: skip
    add("--most", metavar="N", type=float, default=None, include_in_web_ui=True,
        help="The highest level that is tried")  # fmt: skip
    add("--hold", metavar="S", type=float, default=None, include_in_web_ui=True,
        help="How long each level is held, in seconds")  # fmt: skip
    add("--budget", metavar="S", type=float, default=None, include_in_web_ui=True,
        help="No level is begun after so many seconds")  # fmt: skip
    add("--resume", metavar="RUN", default="", include_in_web_ui=False,
        help="Go on with the search of this run folder")  # fmt: skip
    add("--need", metavar="N", type=float, default=None, include_in_web_ui=True,
        help="How much is wanted: sizes a deployment for it")  # fmt: skip
    add("--cost-per-replica", metavar="X", type=float, default=None, include_in_web_ui=True,
        help="What one deployment costs, in any unit")  # fmt: skip


def searched(table: Capacity, options: Any) -> Capacity:
    """``table`` with what the command line says.  Raises ConfigError."""
    given = {"start": options.start, "most": options.most, "hold_s": options.hold,
             "budget_s": options.budget}  # fmt: skip
    told = {key: value for key, value in given.items() if value is not None}
    if options.levels:
        try:
            told["levels"] = [float(part) for part in options.levels.split(",")]
        except ValueError:
            raise ConfigError(
                f"--levels takes numbers with commas, got {options.levels!r}"
            ) from None
    return changed(table, told)
