"""The credentials of one analyst of Progress Agentic RAG, as an application's front end keeps them.

A tool's agent asks for them before it works, and hands them out after a login; no human has a part
in that.  How they are given back differs:

=============  ===================================================================================
edition        reply to ``Get credentials``
=============  ===================================================================================
released       ``response``: ``'{"existing_credentials": {resource: {name: text}}}'``, a string
documented     ``existing_credentials``: ``{resource: text}``, beside the request's id
=============  ===================================================================================

The documented front end finds its credential in the URL where the login ended.
Source: protocols/arag.md, section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import orjson

Json = dict[str, Any]
Edition = Literal["released", "documented"]

_PUBLIC = frozenset(("token_type", "expires_in", "expires_at", "scope"))
"""What of a credential tells nothing."""
_SHORTEST_SECRET = 4
_MOST = 32
_FROM_URL = ("access_token", "code")


class Keyring:
    """Credentials by the resource that they open; ``changed`` is called when there are others."""

    def __init__(self, edition: Edition, changed: Callable[[], None]) -> None:
        self._documented = edition == "documented"
        self._changed = changed
        self._held: dict[str, dict[str, str]] = {}
        self._found = ""

    @property
    def secrets(self) -> Iterator[str]:
        """What must never be recorded or printed."""
        if self._found:
            yield self._found
        for credential in self._held.values():
            for name, text in credential.items():
                if name not in _PUBLIC and len(text) >= _SHORTEST_SECRET:
                    yield text

    def visited(self, location: str) -> None:
        """A login ended at the URL ``location``."""
        try:
            query = parse_qs(urlsplit(location).query) if self._documented else {}
        except ValueError:
            query = {}
        self._found = next((query[name][0] for name in _FROM_URL if name in query), "")
        self._changed()

    def given(self, request: str, wanted: Any) -> str:
        """The reply to ``request``, which asks for the credentials of ``wanted``."""
        resources = [name for name in wanted if type(name) is str] if type(wanted) is dict else []
        if self._found:
            for resource in resources[:_MOST]:
                self._held[resource] = {"access_token": self._found}
            self._found = ""
        known = {name: self._held[name] for name in resources if name in self._held}
        if self._documented:
            texts = {name: _token(credential) for name, credential in known.items()}
            return message({"request_id": request, "existing_credentials": texts})
        response = message({"existing_credentials": known})
        return message({"request_id": request, "response": response})

    def taken(self, request: str, handed: Any) -> str:
        """The acknowledgement of ``request``, which hands credentials out."""
        for resource, credential in handed.items() if type(handed) is dict else ():
            if type(credential) is dict and len(self._held) < _MOST:
                texts = {k: v for k, v in credential.items() if type(v) is str}
                self._held[resource] = texts
        self._changed()
        return message({"request_id": request, "response": "{}"})


def message(value: Json) -> str:
    """``value`` as a JSON text."""
    return orjson.dumps(value).decode()


def _token(credential: dict[str, str]) -> str:
    return credential.get("access_token") or next(iter(credential.values()), "")
