"""Who the analysts are to the server: the plan's ``identity`` table, and the credentials of each.

================  ===========================================  =====================================
method            on a request                                 on a socket
================  ===========================================  =====================================
none
session           cookie ``nat-session``                       the same, at the handshake
session_query     cookie ``nat-session``                       ``?session=`` of the handshake
bearer            ``Authorization: Bearer``                    the same, at the handshake
api_key, jwt      ``Authorization: Bearer``                    ``auth_message``
basic             ``Authorization: Basic``                     ``auth_message``
basic_header      ``Authorization: Basic``                     the same, at the handshake
api_key_header    ``X-API-Key``                                the same, at the handshake
service_account   ``X-NUCLIA-SERVICEACCOUNT: Bearer``          the same, at the handshake
nua_key           ``X-NUCLIA-NUAKEY: Bearer``                  the same, at the handshake
header            the header named ``header``                  the same, at the handshake
================  ===========================================  =====================================

Progress's dialects carry all of these on requests only: on the one for the token of a socket, whose
handshake then has none.  No message shows a credential.  Sources: protocols/nat.md, section 5;
protocols/arag.md, section 1.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping
from typing import Literal, Self

from pydantic import model_validator

from loadgen.clock import wall_ns
from loadgen.dialects.contract import Identity, Wire
from loadgen.errors import ConfigError
from loadgen.mint import Mint, minted
from loadgen.roster import roster_of
from loadgen.secretfile import read_text
from loadgen.section import Section, Text
from loadgen.wire.request import check_headers

Method = Literal[
    "none",
    "session",
    "session_query",
    "bearer",
    "api_key_header",
    "api_key",
    "jwt",
    "basic",
    "basic_header",
    "service_account",
    "nua_key",
    "header",
]

_SOURCES = ("template", "env", "file", "csv", "mint")
_BASIC = ("basic", "basic_header")
_COLUMN = "token"
_BEARERS = {"service_account": "x-nuclia-serviceaccount", "nua_key": "x-nuclia-nuakey"}

_PASSWORD = re.compile(r"[^\x00-\x1f\x7f]+")
_PRINTABLE = re.compile(r"[\x20-\x7e]+")
_CARRIERS = {
    "session": ("cookie", re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+")),
    "session_query": ("?session=", re.compile(r"[A-Za-z0-9._~-]+")),
    "basic": ("password", _PASSWORD),
    "basic_header": ("password", _PASSWORD),
}
"""What a credential may be made of: RFC 6265, 4.1.1; NAT's own rule for its query; RFC 7617, 2.
A header's value is printable ASCII.
"""

_ENV_NAME = re.compile(r"[A-Za-z_](?:\w|\{n\})*", re.ASCII)

_NOT_OURS = frozenset(
    (
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
    )
)
"""Headers of one hop (RFC 9110, 7.6.1), and those that say what the message is and for whom."""


class IdentityPlan(Section):
    """Who the analysts are.

    ``{n}`` in ``template``, ``env``, ``file`` and ``username`` stands for the analyst's number; row
    n of ``csv`` is analyst n's, from 0.  A secret is named by the variable or the file that holds
    it, never written into the plan.
    """

    method: Method = "none"
    template: Text | None = None
    env: Text | None = None
    file: Text | None = None
    csv: Text | None = None
    mint: Mint | None = None
    column: Text | None = None
    username: Text | None = None
    username_column: Text | None = None
    header: Text | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.method == "none":
            given = [name for name in type(self).model_fields if getattr(self, name) is not None]
            for name in given[1:]:
                raise ValueError(f"{name} has no use while method is 'none'; name a method")
            return self
        sources = [name for name in _SOURCES if getattr(self, name) is not None]
        if len(sources) != 1:
            raise ValueError(
                f"method {self.method!r} needs exactly one of template, env, file, csv and mint,"
                f" got {' and '.join(sources) or 'none'}"
            )
        if self.env is not None and not _ENV_NAME.fullmatch(self.env):
            raise ValueError("env is the name of an environment variable, not what it holds")
        self._check_columns()
        self._check_username()
        self._check_header()
        return self

    def _check_columns(self) -> None:
        for name in ("column", "username_column"):
            if getattr(self, name) is not None and self.csv is None:
                raise ValueError(f"{name} names a column of a csv; give csv too")

    def _check_username(self) -> None:
        names = [n for n in ("username", "username_column") if getattr(self, n) is not None]
        if self.method in _BASIC and len(names) != 1:
            raise ValueError(
                f"method {self.method!r} needs a username, or a username_column of csv"
            )
        if self.method not in _BASIC and names:
            raise ValueError(f"{names[0]} has no use with method {self.method!r}")

    def _check_header(self) -> None:
        if (self.method == "header") != (self.header is not None):
            raise ValueError("method 'header' and header, its name, need each other")
        if self.header is None:
            return
        check_headers({self.header: ""})
        name = self.header.lower()
        if name in _NOT_OURS or name.startswith("sec-websocket-"):
            raise ValueError(f"header {self.header} is the connection's; name another one")


def check_identity(
    plan: IdentityPlan,
    wire: Wire,
    analysts: int | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Raise ConfigError when the first or the last of ``analysts`` would have no credential."""
    for number in sorted({0, max(0, (analysts or 1) - 1)}):
        resolve_identity(plan, number, wire, environ)


def resolve_identity(
    plan: IdentityPlan,
    number: int,
    wire: Wire,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], int] = wall_ns,
) -> Identity:
    """The credentials of analyst ``number``; ``clock`` (wall time in ns) dates minted tokens.

    What comes from a template is no secret.  Raises ConfigError when the source has none.
    """
    if plan.method == "none":
        return Identity()
    token = _credential(plan, number, environ, clock)
    if plan.method in _BASIC:
        return _basic(plan, _username(plan, number), token, wire)
    secrets = () if plan.template is not None else (token,)
    if wire is Wire.WEBSOCKET and plan.method in ("api_key", "jwt"):
        return Identity(login={"method": plan.method, "token": token}, secrets=secrets)
    if wire is Wire.WEBSOCKET and plan.method == "session_query":
        return Identity(query={"session": token}, secrets=secrets)
    return Identity(headers=_headers(plan, token), secrets=secrets)


def _headers(plan: IdentityPlan, token: str) -> dict[str, str]:
    if plan.header is not None:
        return {plan.header.lower(): token}
    if plan.method in ("session", "session_query"):
        return {"cookie": f"nat-session={token}"}
    if plan.method == "api_key_header":
        return {"x-api-key": token}
    return {_BEARERS.get(plan.method, "authorization"): f"Bearer {token}"}


def _basic(plan: IdentityPlan, user: str, password: str, wire: Wire) -> Identity:
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    secrets = () if plan.template is not None else (password, encoded)
    if wire is Wire.WEBSOCKET and plan.method == "basic":
        login = {"method": "basic", "username": user, "password": password}
        return Identity(login=login, secrets=secrets)
    return Identity(headers={"authorization": f"Basic {encoded}"}, secrets=secrets)


def _username(plan: IdentityPlan, number: int) -> str:
    if plan.username is not None:
        user, source = _numbered(plan.username, number), "username"
    else:
        column = plan.username_column or ""
        user, source = _cell(plan, number, column)
    if ":" in user or not _PASSWORD.fullmatch(user):
        raise ConfigError(f"identity: {source} holds a colon or a control character")
    return user


def _credential(
    plan: IdentityPlan, number: int, environ: Mapping[str, str], clock: Callable[[], int]
) -> str:
    if plan.mint is not None:
        return minted(plan.mint, number, clock)
    if plan.template is not None:
        token, source = _numbered(plan.template, number).strip(), "template"
    elif plan.env is not None:
        token, source = _variable(_numbered(plan.env, number), environ)
    elif plan.file is not None:
        token, source = _content(_numbered(plan.file, number))
    else:
        token, source = _cell(plan, number, plan.column or _COLUMN)
    if not token:
        raise ConfigError(f"identity: {source} is empty")
    carrier, fit = _CARRIERS.get(plan.method, ("header", _PRINTABLE))
    if not fit.fullmatch(token):
        raise ConfigError(f"identity: {source} holds characters that no {carrier} may carry")
    return token


def _numbered(template: str, number: int) -> str:
    return template.replace("{n}", str(number))


def _variable(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    token = environ.get(name, "").strip()
    if not token:
        raise ConfigError(
            f"identity: the environment variable {name} is not set; export it before the run"
        )
    return token, f"the environment variable {name}"


def _content(path: str) -> tuple[str, str]:
    what = "credential file"
    return read_text(path, what).strip(), f"the {what} {path}"


def _cell(plan: IdentityPlan, number: int, column: str) -> tuple[str, str]:
    path = plan.csv or ""
    cell = roster_of(path).cell(number, column)
    return cell, f"column {column!r} of {path} for analyst {number}"
