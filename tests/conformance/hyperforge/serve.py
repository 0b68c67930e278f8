"""Install the real Hyperforge once, the published runtime of Progress Agentic RAG, and serve the
scripted agent with it on loopback.

    python tests/conformance/hyperforge/serve.py --install
    python tests/conformance/hyperforge/serve.py --port 8100 [--provider https://127.0.0.1:8898]

Standard library only.  Hyperforge needs a Python of its own, 3.12 or newer; this one need not be.
The environment lies in ``$XDG_CACHE_HOME/loadgen-conformance/hyperforge`` (without that variable in
``~/.cache``) and is used again until `REQUIREMENTS` change; several processes may ask for it at
once.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

REQUIREMENTS = (
    "hyperforge==1.0.0.post437",
    "hyperforge-mcp==1.0.0.post172",
    "hyperforge-summarize==1.0.0.post97",
    "hyperforge-smart==1.0.0.post142",
    "hyperforge-restricted==1.0.0.post129",
    "hyperforge-static-string==1.0.0.post55",
    "pyyaml",
)
"""The release of the recordings and the parts of it that it imports or ships with."""

OLDEST = (3, 12)
_MINORS = range(12, 15)
_SERVER = Path(__file__).with_name("server.py")
_ASK_S = 20


class InstallError(Exception):
    """Hyperforge cannot be installed; the text is one line that says why."""


class NoPython(InstallError):
    """There is no Python that is new enough."""


def environment() -> Path:
    """Where Hyperforge's virtual environment is, or will be."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "loadgen-conformance" / "hyperforge"


def install() -> Path:
    """Make the environment unless it is there as wanted; gives its Python.

    Raises InstallError.
    """
    place = environment()
    place.parent.mkdir(parents=True, exist_ok=True)
    python = place / "server" / "bin" / "python"
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark, wanted = place / "installed", _fingerprint()
        if not (mark.is_file() and mark.read_text() == wanted and _version(python) >= OLDEST):
            base = find_python()
            shutil.rmtree(place, ignore_errors=True)
            uv = _uv(place / "bootstrap")
            _run(uv, "venv", "--quiet", "--python", str(base), str(place / "server"))
            # Nothing is built: a source distribution may need a compiler.
            _run(uv, "pip", "install", "--quiet", "--no-build", "--python", str(python),
                 *REQUIREMENTS)  # fmt: skip
            mark.write_text(wanted)
    return python


def find_python() -> Path:
    """A Python that Hyperforge runs on; the oldest that will do, as its makers test with.

    Raises NoPython.
    """
    for python in _candidates():
        if _version(python) >= OLDEST:
            return python
    raise NoPython(
        f"Hyperforge needs Python {OLDEST[0]}.{OLDEST[1]} or newer:"
        " none on the PATH, none in ~/.pyenv/versions"
    )


def command(python: Path, port: int) -> list[str]:
    """The command line of a server on ``port`` of 127.0.0.1."""
    return [str(python), str(_SERVER), "--port", str(port)]


def environ(provider: str) -> dict[str, str]:
    """The environment of a server that sends its users to the OAuth ``provider``."""
    return os.environ | {"CONFORMANCE_PROVIDER": provider, "PYTHONWARNINGS": "ignore"}


def _candidates() -> Iterator[Path]:
    managed = Path.home() / ".pyenv" / "versions"
    for minor in _MINORS:
        found = shutil.which(f"python3.{minor}")
        if found:
            yield Path(found)
        yield from sorted(managed.glob(f"3.{minor}.*/bin/python"))
    yield Path(sys.executable)
    for name in ("python3", "python"):
        found = shutil.which(name)
        if found:
            yield Path(found)


def _version(python: Path) -> tuple[int, ...]:
    """(0,) if it does not run: a name on the PATH may be a shim with nothing behind it."""
    ask = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", ask], capture_output=True, text=True, check=True, timeout=_ASK_S
        )
    except (OSError, subprocess.SubprocessError):
        return (0,)
    return tuple(map(int, done.stdout.split()))


def _uv(place: Path) -> Path:
    """uv, from the package index: pip's resolver takes many minutes for Hyperforge."""
    venv.create(place, with_pip=True)
    _run(place / "bin" / "python", "-m", "pip", "--disable-pip-version-check",
         "install", "--quiet", "uv")  # fmt: skip
    return place / "bin" / "uv"


def _run(program: Path, *arguments: str) -> None:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        why = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise InstallError(
            f"cannot install Hyperforge ({' '.join([program.name, *arguments[:2]])}): {why};"
            " is the package index reachable?"
        )


def _fingerprint() -> str:
    return hashlib.sha256(repr(REQUIREMENTS).encode()).hexdigest()


def main() -> None:
    """The command line; serving replaces this process by the server."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--install", action="store_true", help="only install")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument(
        "--provider", default="https://127.0.0.1:8898", help="where provider.py listens"
    )
    options = parser.parse_args()
    try:
        python = install()
    except InstallError as error:
        sys.exit(f"serve.py: {error}")
    if not options.install:
        os.execve(python, command(python, options.port), environ(options.provider))


if __name__ == "__main__":
    main()
