"""Files that hold secrets: read whole, named in messages, never shown.

Paths are relative to the working directory.
"""

from __future__ import annotations

from pathlib import Path

from loadgen.errors import ConfigError


def read_bytes(path: str, what: str) -> bytes:
    """The content of ``path``, which messages call ``what``.  Raises ConfigError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, what, error) from None


def read_text(path: str, what: str) -> str:
    """The same, as UTF-8, with or without a byte order mark."""
    try:
        return read_bytes(path, what).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"identity: the {what} {path} is not UTF-8 text") from None


def edition(path: str, what: str) -> int:
    """When ``path`` was last written: tells a cache that it is out of date.  Raises ConfigError."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError as error:
        raise _unreadable(path, what, error) from None


def _unreadable(path: str, what: str, error: OSError) -> ConfigError:
    return ConfigError(f"identity: cannot read the {what} {path}: {error.strerror}")
