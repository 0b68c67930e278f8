"""The ``loadgen`` command.  Verbs import what they need when they run, so that help is instant."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadgen import __version__
from loadgen.errors import ConfigError, ExitCode, LoadgenError

if TYPE_CHECKING:
    from loadgen.journal import RunData

results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder that holds the runs.",
)
run_argument = click.argument("run")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="loadgen")
def cli() -> None:
    """Load testing for agent chat services.

    RUN is a run folder, its name inside the results folder, or 'latest'.

    \b
    Exit codes: 0 PASS, 1 internal error, 2 usage or config, 3 SLO missed,
    5 INVALID (no statement about the target is possible), 6 INCONCLUSIVE,
    130 interrupted.
    """


@cli.command()
@run_argument
@results_option
def report(run: str, results: Path) -> int:
    """Make summary.json and report.html of RUN again."""
    from loadgen.analysis.summary import write_summary
    from loadgen.report.page import write_report
    from loadgen.report.terminal import print_summary

    data, summary = _judge(results, run)
    write_summary(data.folder, summary)
    print_summary(summary, write_report(data, summary, data.folder))
    return ExitCode.PASS


@cli.command()
@run_argument
@results_option
def gate(run: str, results: Path) -> int:
    """Print the verdict on RUN and why; the exit code says it too."""
    from loadgen.report.terminal import print_verdict

    _, summary = _judge(results, run)
    print_verdict(summary)
    return int(summary["exit_code"])


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
def dialects() -> int:
    """List the wire languages that agents can be asked in."""
    from loadgen.dialects import DIALECTS, create

    width = max(map(len, DIALECTS))
    for name in sorted(DIALECTS):
        dialect = create(name)
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


def _judge(results: Path, run: str) -> tuple[RunData, dict[str, Any]]:
    from loadgen.analysis.summary import summarise
    from loadgen.journal import find_run, read_run

    data = read_run(find_run(results, run))
    return data, summarise(data)


if __name__ == "__main__":
    sys.exit(main())
