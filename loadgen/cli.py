"""The ``loadgen`` command.  Verbs import what they need when they run, so that help is instant."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadgen import __version__
from loadgen.errors import ConfigError, ExitCode, LoadgenError
from loadgen.metrics import HAPPENINGS, INTENDED, MARKS, Clock

if TYPE_CHECKING:
    from loadgen.analysis.measure import Terms

results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder that holds the runs.",
)
run_argument = click.argument("run")
folder_option = click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the files."
)

_CLOCKS = (*MARKS, *INTENDED.values(), Clock.MAX_GAP, *HAPPENINGS)
_COMPARED = [*(clock.value for clock in _CLOCKS), "failures"]


def _percent(name: str, default: float, text: str) -> Callable[..., Any]:
    return click.option(
        name, type=click.FloatRange(min=0, max=1000), default=default, show_default=True, help=text
    )


def terms_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """What a comparison tolerates, as options of ``verb``."""
    for option in reversed(
        (
            click.option("--metric", "metrics", multiple=True, metavar="CLOCK",
                         type=click.Choice(_COMPARED),
                         help="Compare this clock, or 'failures', only; may be repeated."),
            _percent("--tolerance-p50", 5.0, "How much slower a typical turn may be, in percent."),
            _percent("--tolerance-p95", 10.0, "How much slower the tail may be, in percent."),
            _percent("--tolerance-failures", 2.0, "More failed turns, in percentage points."),
            _percent("--least-ms", 5.0, "A smaller change of a clock is none, in ms."),
            _percent("--effect", 20.0, "Needed turns are told for this change, in percent."),
            click.option("--allow", "allowed", multiple=True,
                         type=click.Choice(["host", "plan", "load", "dialects", "transport",
                                            "invalid"]),
                         help="Compare although this differs; may be repeated."),
        )
    ):  # fmt: skip
        verb = option(verb)
    return verb


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="loadgen")
def cli() -> None:
    """Load testing for agent chat services.

    RUN is a run folder, its name inside the results folder, or 'latest'.

    \b
    Exit codes: 0 PASS, 1 internal error, 2 usage or config, 3 SLO missed,
    4 regression, 5 INVALID (no statement about the target is possible),
    6 INCONCLUSIVE, 130 interrupted.
    """


@cli.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@results_option
@click.option("--png", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Also write each chart as DIR/NAME.png; needs the extra 'png'.")  # fmt: skip
@click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False),
              help="Page of several runs. Default: side-by-side.html in --results.")  # fmt: skip
def report(
    runs: tuple[str, ...], results: Path, png: Path | None, open_it: bool, out: Path | None
) -> int:
    """Make summary.json, report.html and junit.xml of RUN again.

    Several RUNs are put side by side, a column each, in a page of their own.
    """
    from loadgen import reporting

    if len(runs) == 1:
        if out:
            raise ConfigError("--out is for several runs; the report of one is in its folder")
        reporting.reported(results, runs[0], png, open_it)
    else:
        reporting.beside_each_other(results, runs, out, png, open_it)
    return ExitCode.PASS


@cli.command()
@run_argument
@results_option
@click.option("--baseline", help="Name of the baseline to hold RUN against; see 'bless'.")
@click.option("--inconclusive", type=click.Choice(["pass", "fail"]), default="fail",
              show_default=True, help="Exit with 0 or 6 when it is not settled.")  # fmt: skip
@terms_options
@folder_option
def gate(
    run: str,
    results: Path,
    baseline: str | None,
    inconclusive: str,
    allowed: tuple[str, ...],
    out: Path | None,
    **tolerated: Any,
) -> int:
    """Print the verdict on RUN and why; the exit code says it too.

    Validity first, then the targets, then the comparison with the baseline; of an A/B run that of
    its two sides. --out gets junit.xml, summary.md, metrics.txt, comparison.json and
    comparison.html; summary.md is also added to the file that GITHUB_STEP_SUMMARY names.
    """
    from loadgen import regression

    step = os.environ.get("GITHUB_STEP_SUMMARY")
    outputs = regression.Outputs(out, Path(step) if step else None)
    return regression.gated(
        results, run, baseline, _terms(tolerated), allowed, inconclusive == "pass", outputs
    )


@cli.command()
@click.argument("base")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@results_option
@click.option("--and-base", "bases", multiple=True, metavar="RUN",
              help="One more run of the base; may be repeated.")  # fmt: skip
@terms_options
@folder_option
def compare(
    base: str,
    runs: tuple[str, ...],
    results: Path,
    bases: tuple[str, ...],
    allowed: tuple[str, ...],
    out: Path | None,
    **tolerated: Any,
) -> int:
    """Hold each clock of RUN against BASE, a run or a baseline.

    REGRESSION (exit code 4) when the interval of a change lies beyond what is tolerated, OK (0)
    when it lies within, INCONCLUSIVE (6) otherwise, with the turns it would take. Of five and more
    runs a side the run is the unit. comparison.json goes to --out, or beside the first RUN.
    """
    from loadgen import regression

    return regression.compared(results, (base, *bases), runs, _terms(tolerated), allowed, out)


@cli.command()
@click.option("--baseline", metavar="URL", help="The target that is known.")
@click.option("--candidate", metavar="URL", help="The target in question.")
@click.option(
    "--mock-args",
    multiple=True,
    metavar="ARGS",
    help="Without targets: options of both bundled mock agents; given twice, of the "
    "baseline's and the candidate's.",
)
@click.option(
    "--scenario",
    type=click.Path(path_type=Path),
    help="The Locust file. Default: scenarios/regression.py.",
)
@click.option("--plan", type=click.Path(path_type=Path), help="Default: beside the scenario.")
@click.option(
    "-u",
    "--users",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Analysts; each asks both sides.",
)
@click.option(
    "-r",
    "--rate",
    type=click.FloatRange(min=0.01),
    default=10.0,
    show_default=True,
    help="Analysts that come a second.",
)
@click.option("-t", "--run-time", default="2m", show_default=True, help="As locust has it.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that share the analysts.",
)
@click.option("--run-name", help="Name of the run's folder. Default: the plan's name.")
@results_option
@click.option(
    "--inconclusive",
    type=click.Choice(["pass", "fail"]),
    default="fail",
    show_default=True,
    help="Exit with 0 or 6 when it is not settled.",
)
@terms_options
def ab(
    baseline: str | None,
    candidate: str | None,
    mock_args: tuple[str, ...],
    scenario: Path | None,
    plan: Path | None,
    users: int,
    rate: float,
    run_time: str,
    processes: int,
    run_name: str | None,
    results: Path,
    inconclusive: str,
    allowed: tuple[str, ...],
    **tolerated: Any,
) -> int:
    """Ask a baseline and a candidate in one run, and compare them.

    The conversations of each analyst go A, B, B, A: same analysts, same minute, so that what
    happens on this machine meets both sides. The run folder gets comparison.html, comparison.json,
    junit.xml, summary.md and metrics.txt beside the report; exit codes are those of 'gate'.
    """
    from loadgen import ab as contests

    if (baseline is None) != (candidate is None):
        raise ConfigError("--baseline and --candidate need each other")
    targets = None if baseline is None or candidate is None else (baseline, candidate)
    gate = ("--inconclusive", inconclusive, *_gate_options(allowed, tolerated))
    return contests.run(
        contests.Contest(
            targets,
            mock_args,
            users,
            rate,
            run_time,
            results,
            scenario,
            plan,
            run_name,
            processes,
            gate,
        )
    )


@cli.command()
@run_argument
@results_option
@click.option("--name", help="Name of the baseline. Default: that of the plan.")
def bless(run: str, results: Path, name: str | None) -> int:
    """Make RUN a baseline, to be committed to git."""
    from loadgen import regression
    from loadgen.clock import utc_text, wall_ns

    print(f"baseline: {regression.blessed(results, run, name, utc_text(wall_ns()))}")
    return ExitCode.PASS


@cli.command()
@click.argument("name", required=False)
@results_option
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False),
              help="The page. Default: history.html in the results folder.")  # fmt: skip
def history(name: str | None, results: Path, out: Path | None) -> int:
    """Show runs of one plan and load in order, and where their level changed.

    NAME is a baseline or the name of runs; without one it is the history of the latest run.
    """
    from loadgen import regression

    return regression.recalled(results, name, out)


@cli.command()
@run_argument
@results_option
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl"]),
    required=True,
    help="csv: a column a clock; jsonl: the rows with their clocks.",
)
@click.option("--out", type=click.Path(path_type=Path), help="File to write; stdout without it.")
def export(run: str, results: Path, kind: str, out: Path | None) -> int:
    """Write RUN's turns with their derived durations."""
    from loadgen.analysis.export import write_csv, write_jsonl
    from loadgen.journal import find_run, read_run

    data = read_run(find_run(results, run))
    write = write_csv if kind == "csv" else write_jsonl
    try:
        with out.open("wb") if out else nullcontext(sys.stdout.buffer) as stream:
            write(data, stream)
            stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise LoadgenError(f"{out or 'stdout'}: cannot write: {error.strerror}") from error
    return ExitCode.PASS


@cli.command()
@click.option(
    "--analysts",
    type=click.IntRange(min=1),
    default=180,
    show_default=True,
    help="How many analysts you want to run.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0.5, max=200),
    default=20.0,
    show_default=True,
    help="Events a second that each of them reads.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that share them.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0),
    default=4.0,
    show_default=True,
    help="Time for the search of the most analysts; 0 measures the wanted ones only.",
)
@results_option
def calibrate(analysts: int, rate: float, processes: int, minutes: float, results: Path) -> int:
    """Measure the generator's own error and cost on this host.

    The whole stack runs against the bundled mock agent, whose log tells the truth. What is found is
    kept in the results folder and shown in the reports of later runs on this host. Exit code 0 when
    the wanted analysts were held, 5 when they were not.
    """
    from loadgen import calibrate as calibrating
    from loadgen.calibration import keep
    from loadgen.report.calibration import progress, show
    from loadgen.trial import Crowd, run

    crowd, budget_s = Crowd(analysts, rate, processes), 60 * minutes
    with progress(max(budget_s, crowd.trial_s)) as told:
        found = calibrating.calibrate(crowd, budget_s, lambda one: told(one, run))
    path = keep(results, found.as_json())
    show(found.as_json(), path)
    return ExitCode.PASS if calibrating.held(found.wanted) else ExitCode.INVALID


@cli.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--need",
    type=click.FloatRange(min=0, min_open=True),
    help="How much is wanted, in the unit of the levels: sizes a deployment for it.",
)
@click.option(
    "--cost-per-replica",
    type=click.FloatRange(min=0),
    help="What one deployment costs, in any unit.",
)
@click.option("--against", metavar="RUN", help="Show the answer beside that of this run.")
@click.option(
    "--plan",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The plan of a search. Default: the one beside the scenario.",
)
@click.option("--host", metavar="URL", help="The target of a search. Default: the bundled mock.")
@click.option("--levels", metavar="N,N,...", help="Measure these levels instead of searching.")
@click.option("--start", type=float, help="The first level of the search.")
@click.option("--most", type=float, help="The highest level that is tried.")
@click.option("--hold", type=float, help="How long each level is held, in seconds.")
@click.option("--budget", type=float, help="No level is begun after so many seconds.")
@click.option("--resume", metavar="RUN", help="Go on with the search of this run.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that share the load of a search.",
)
@click.option("--mock-args", metavar="ARGS", help="Options for the bundled mock agent.")
@click.option("--insecure", is_flag=True, help="Accept any TLS certificate of the target.")
@click.option("--scenario", type=click.Path(path_type=Path, dir_okay=False),
              help="The scenario of a search. Default: scenarios/capacity.py.")  # fmt: skip
@results_option
@folder_option
def capacity(
    runs: tuple[str, ...],
    need: float | None,
    cost_per_replica: float | None,
    against: str | None,
    results: Path,
    out: Path | None,
    processes: int,
    scenario: Path | None,
    insecure: bool,
    **searched: Any,
) -> int:
    """Find out how many analysts the target holds at the targets of its plan.

    Without RUN it searches, and shows how that goes. With RUN it answers from the levels of that
    search, or from runs that are one level each. The folder gets capacity.json, capacity.html and
    capacity.md. Exit code 0 when --need is met, or when there is an answer and nothing is needed.
    """
    from loadgen import planning

    given = {name: value for name, value in searched.items() if value is not None}
    if runs:
        if given:
            named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise ConfigError(f"{named}: only for a search, and RUN is given: leave one away")
        question = planning.Question(need, cost_per_replica, against)
        return planning.assessed(results, runs, question, out)
    if against or out:
        raise ConfigError("--against and --out are for RUN: search first, then answer from it")
    given |= {"need": need, "cost_per_replica": cost_per_replica}
    options = [
        f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None
    ]
    options += ["--insecure"] if insecure else []
    return planning.search(planning.Inquiry(results, scenario, processes, tuple(options)))


@cli.command()
def dialects() -> int:
    """List the wire languages that agents can be asked in."""
    from loadgen.dialects import DIALECTS, NEEDED, create

    width = max(map(len, DIALECTS))
    for name in sorted(DIALECTS):
        dialect = create(name, options=NEEDED.get(name, {}))
        print(f"{name:<{width}}  {dialect.wire.value:<9}  {dialect.route}")
    return ExitCode.PASS


@cli.command()
@click.argument("url")
@click.argument("question")
@click.option("--dialect", required=True, help="How the agent talks; see 'loadgen dialects'.")
@click.option("--route", help="Path on the target. Default: the dialect's own.")
@click.option("--identity", help="Method, as in the plan: session, bearer, api_key, jwt, basic, …")
@click.option("--token-env", help="Environment variable that holds the credential.")
@click.option("--username", help="User of the method basic.")
@click.option("--reply", help="Answer to prompts. Default: the first option, or 2024.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=120.0,
    show_default=True,
    help="Seconds until the turn is given up.",
)
@click.option("--insecure", is_flag=True, help="Accept any TLS certificate.")
@click.option("--option", "pairs", multiple=True, metavar="KEY=VALUE",
              help="Option of the dialect, as in the plan's options; may be repeated.")  # fmt: skip
@click.option("--allow-origin", "origins", multiple=True, metavar="URL",
              help="Where else the server may send us; may be repeated.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the turn's record as JSON.")
def probe(
    url: str,
    question: str,
    dialect: str,
    route: str | None,
    identity: str | None,
    token_env: str | None,
    username: str | None,
    reply: str | None,
    timeout: float,
    insecure: bool,
    pairs: tuple[str, ...],
    origins: tuple[str, ...],
    as_json: bool,
) -> int:
    """Ask QUESTION once at URL and show what comes, when, and how the turn ends.

    Exit code 0 when the turn completed, 3 when it did not.
    """
    from loadgen import probe as probing
    from loadgen.plan import identity_plan, target_host

    asked = probing.Probe(
        host=target_host(url),
        question=question,
        dialect=dialect,
        route=route,
        identity=identity_plan(identity, token_env, username),
        reply=reply,
        timeout_s=timeout,
        insecure=insecure,
        options=_options(pairs),
        allow_origins=origins,
    )
    events: list[tuple[int, str, str]] = []
    record = probing.run(asked, lambda *told: events.append(told))
    row = record.to_row()
    if as_json:
        print(json.dumps(row))
    else:
        _print_probe(row, events)
    return ExitCode.PASS if record.ok else ExitCode.SLO_MISSED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    What we raise on purpose is one line on stderr; only a bug shows a traceback.
    """
    try:
        code = cli.main(args=arguments, prog_name="loadgen", standalone_mode=False)
    except LoadgenError as error:
        print(f"loadgen: {error}", file=sys.stderr)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return ExitCode.INTERRUPTED
    return int(code or 0)


def _options(pairs: tuple[str, ...]) -> dict[str, str]:
    options = dict(pair.partition("=")[::2] for pair in pairs)
    for pair in pairs:
        if "=" not in pair:
            raise ConfigError(f"--option takes KEY=VALUE, got {pair!r}")
    return options


def _print_probe(row: dict[str, Any], events: list[tuple[int, str, str]]) -> None:
    from loadgen.clock import NS_PER_MS
    from loadgen.metrics import turn_clocks

    start = row["started_mono_ns"]
    for at, name, text in events:
        print(f"{(at - start) / NS_PER_MS:10.1f} ms  {name:<9}  {text[:120]}")
    clocks = "  ".join(f"{clock} {value:.1f} ms" for clock, value in turn_clocks(row).items())
    why = f" ({row['cause']}: {row.get('detail', '')})" if "cause" in row else ""
    print(f"\n{row['outcome']}{why}")
    print(clocks)
    if "answer" in row:
        print(f"answer: {row['answer']}")


def _gate_options(allowed: tuple[str, ...], tolerated: dict[str, Any]) -> list[str]:
    """What `terms_options` took, as the options of another command."""
    options = [f"--allow={guard}" for guard in allowed]
    for name, value in tolerated.items():
        if name == "metrics":
            options += [f"--metric={metric}" for metric in value]
        else:
            options.append(f"--{name.replace('_', '-')}={value:g}")
    return options


def _terms(tolerated: dict[str, Any]) -> Terms:
    from loadgen.analysis.measure import Terms

    return Terms(
        typical=tolerated["tolerance_p50"] / 100,
        tail=tolerated["tolerance_p95"] / 100,
        failures=tolerated["tolerance_failures"] / 100,
        least_ms=tolerated["least_ms"],
        effect=tolerated["effect"] / 100,
        metrics=tolerated["metrics"] or None,
    )


if __name__ == "__main__":
    sys.exit(main())
