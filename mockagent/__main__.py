"""``python -m mockagent``: start the mock agent in the foreground."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path
from typing import Any

import click

from loadgen.errors import LoadgenError
from mockagent.options import setting_options, settings_from
from mockagent.server import listen, serve

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
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
    "--tls-cert", type=_FILE, help="Certificate chain (PEM): serve https (with --tls-key)."
)
@click.option("--tls-key", type=_FILE, help="Private key of --tls-cert (PEM).")
@setting_options
@click.option(
    "--log-level", type=click.Choice(_LEVELS), default="warning", show_default=True,
    help="What goes to stderr.",
)  # fmt: skip
def main(
    host: str,
    allow_non_loopback: bool,
    port: int,
    log_level: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    **options: Any,
) -> None:
    """An agent on loopback that answers as NAT does, on a timeline that the question scripts.

    Prints one line when it is ready; stops on SIGTERM and SIGINT.
    """
    if not (allow_non_loopback or _is_loopback(host)):
        raise click.UsageError(
            f"--host {host} may be reached from other machines; "
            "add --allow-non-loopback if that is meant"
        )
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key need each other")
    try:
        settings = settings_from(options)
        listener = listen(host, port)
    except LoadgenError as error:
        click.echo(f"mockagent: {error}", err=True)
        sys.exit(int(error.exit_code))
    shown = f"[{host}]" if ":" in host else host
    origin = f"http{'s' if tls_cert else ''}://{shown}:{listener.getsockname()[1]}"
    line = f"mock agent on {origin}"
    serve(settings, listener, origin, log_level, lambda: print(line, flush=True), tls_cert, tls_key)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    main()
