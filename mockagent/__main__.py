"""``python -m mockagent``: start the mock agent in the foreground."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

import click

from loadgen.errors import LoadgenError
from mockagent.agent import Settings
from mockagent.profile import Profile, read_profile
from mockagent.server import listen, serve

_LEVELS = ("debug", "info", "warning", "error", "critical")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--allow-non-loopback",
    is_flag=True,
    help="Let --host be an address that other machines can reach.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--slots",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="How many turns run at a time, the others wait; 0: no cap. NAT as released has 8.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the profile's draws.")
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    help="TOML file that replaces values of the default profile.",
)
@click.option("--require-auth", is_flag=True, help="Refuse questions of callers without identity.")
@click.option("--reject-auth", is_flag=True, help="Answer every auth_message with an error.")
@click.option(
    "--truth-limit",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Lines that each truth log keeps.",
)
@click.option(
    "--log-level", type=click.Choice(_LEVELS), default="warning", show_default=True,
    help="What goes to stderr.",
)  # fmt: skip
def main(
    host: str,
    allow_non_loopback: bool,
    port: int,
    slots: int,
    seed: int,
    profile: Path | None,
    require_auth: bool,
    reject_auth: bool,
    truth_limit: int,
    log_level: str,
) -> None:
    """An agent on loopback that answers as NAT does, on a timeline that the question scripts.

    Prints one line when it is ready; stops on SIGTERM and SIGINT.
    """
    if not (allow_non_loopback or _is_loopback(host)):
        raise click.UsageError(
            f"--host {host} may be reached from other machines; "
            "add --allow-non-loopback if that is meant"
        )
    try:
        settings = Settings(
            slots=slots,
            seed=seed,
            profile=read_profile(profile) if profile else Profile(),
            require_auth=require_auth,
            reject_auth=reject_auth,
            truth_limit=truth_limit,
        )
        listener = listen(host, port)
    except LoadgenError as error:
        click.echo(f"mockagent: {error}", err=True)
        sys.exit(int(error.exit_code))
    shown = f"[{host}]" if ":" in host else host
    line = f"mock agent on http://{shown}:{listener.getsockname()[1]}"
    serve(settings, listener, log_level, ready=lambda: print(line, flush=True))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    main()
