"""Requests to bytes (RFC 9112 section 3), and what may stand in one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from loadgen import __version__
from loadgen.wire.frame import Request

USER_AGENT = f"loadgen/{__version__}"

_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"/[\x21-\x7e]*")
_FRAMING = frozenset(("content-length", "transfer-encoding"))
_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


def render(request: Request, defaults: Mapping[str, str]) -> bytes:
    """``request`` as it goes on the wire; its headers replace ``defaults`` of the same name.

    Raises ValueError for one that cannot be written.
    """
    if not _TOKEN.fullmatch(request.method):
        raise ValueError(f"{request.method!r} is not an HTTP method")
    check_path(request.path)
    check_headers(defaults)
    check_headers(request.headers)
    headers = {**defaults, **{name.lower(): value for name, value in request.headers.items()}}
    if request.body or request.method in _WITH_BODY:
        headers["content-length"] = str(len(request.body))
    lines = [f"{request.method} {request.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise ValueError for a header that cannot be written, or would be read as two.

    The message names the header and never shows its value, which may be a secret.
    """
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a header")
        if name.lower() in _FRAMING:
            raise ValueError(f"header {name}: the codec sets it")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"header {name}: its value has a line break or another bad character")


def check_path(path: str) -> None:
    """Raise ValueError for a path (with query) that is not fit for a request line."""
    if not _TARGET.fullmatch(path):
        raise ValueError(
            f"path must begin with / and hold no blank, control or non-ASCII: {path!r}"
        )
