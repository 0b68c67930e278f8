"""Install the real NeMo Agent Toolkit once, and serve the scripted workflow with it on loopback.

    python tests/conformance/nat/serve.py --install
    python tests/conformance/nat/serve.py --port 8000 [--config wide]

Standard library only.  The environment lies in ``$XDG_CACHE_HOME/loadgen-conformance/nat`` (without
that variable in ``~/.cache``) and is used again until this folder's files or `RELEASE` change;
several processes may ask for it at once.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

RELEASE = "1.9.0"
_HERE = Path(__file__).parent
CONFIGS = tuple(sorted(path.stem for path in _HERE.glob("*.yml")))
_PLUGIN = _HERE / "plugin"
# 1.9.0 imports SQLAlchemy at start and does not require it.
_REQUIREMENTS = (f"nvidia-nat-core=={RELEASE}", "sqlalchemy[asyncio]~=2.0", "aiosqlite")
_BUILD = ("setuptools>=64",)


class InstallError(Exception):
    """The toolkit cannot be installed; the text is one line that says why."""


def environment() -> Path:
    """Where the toolkit's virtual environment is, or will be."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "loadgen-conformance" / "nat"


def install() -> Path:
    """Make the environment unless it is there as wanted; gives its ``nat`` command.

    Raises InstallError.
    """
    place = environment()
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark, wanted = place / "installed", _fingerprint()
        if not mark.is_file() or mark.read_text() != wanted:
            shutil.rmtree(place, ignore_errors=True)
            venv.create(place, with_pip=True)
            _pip(place, *_REQUIREMENTS, *_BUILD)
            with tempfile.TemporaryDirectory() as copy:  # building leaves files beside the sources
                shutil.copytree(_PLUGIN, copy, dirs_exist_ok=True)
                _pip(place, "--no-deps", "--no-build-isolation", copy)
            mark.write_text(wanted)
    return place / "bin" / "nat"


def command(nat: Path, port: int, config: str) -> list[str]:
    """The command line of a server on ``port`` of 127.0.0.1."""
    place = ("--host", "127.0.0.1", "--port", str(port))
    return [str(nat), "serve", "--config_file", str(_HERE / f"{config}.yml"), *place]


def environ(port: int, provider: str) -> dict[str, str]:
    """The environment of a server on ``port`` that sends its users to the OAuth ``provider``, or
    gets the keys of their tokens there.
    """
    place = {
        "CONFORMANCE_ORIGIN": f"http://127.0.0.1:{port}",
        "CONFORMANCE_PROVIDER": provider,
    }
    return os.environ | place | {"PYTHONWARNINGS": "ignore"}


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{sys.version_info[:2]} {_REQUIREMENTS} {_BUILD}".encode())
    for path in sorted(_PLUGIN.rglob("*")):
        if path.suffix in (".py", ".toml"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _pip(place: Path, *arguments: str) -> None:
    pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "install", "--quiet", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = " ".join(said) or done.stderr.strip() or f"pip exited with {done.returncode}"
        raise InstallError(
            f"cannot install the NeMo Agent Toolkit ({' '.join(_REQUIREMENTS)}): {why};"
            " is the package index reachable?"
        )


def main() -> None:
    """The command line; serving replaces this process by the server."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--install", action="store_true", help="only install")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--config", choices=CONFIGS, default="wide")
    parser.add_argument(
        "--provider",
        default="http://127.0.0.1:8899",
        help="where provider.py listens (full, jwt, jwts)",
    )
    options = parser.parse_args()
    try:
        nat = install()
    except InstallError as error:
        sys.exit(f"serve.py: {error}")
    if not options.install:
        os.chdir(environment())  # the toolkit drops a .tmp where it runs
        place = environ(options.port, options.provider)
        os.execve(nat, command(nat, options.port, options.config), place)


if __name__ == "__main__":
    main()
