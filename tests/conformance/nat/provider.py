"""An OAuth authorization server on loopback: for the toolkit's authorization code flow it grants
every consent and takes every code, and it shows the public keys of its tokens.

    python tests/conformance/nat/provider.py --port 8899 [--keys FOLDER]

Standard library only.  ``&deny=access_denied`` on the URL of the consent is a user who refuses.
``GET /keys/one.json`` gives that file of FOLDER, a JSON Web Key Set (RFC 7517, 5).
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

_TOKEN = {"access_token": "conformance-token", "token_type": "Bearer", "expires_in": 3600}


class Handler(BaseHTTPRequestHandler):
    """``GET /authorize`` redirects back at once (RFC 6749, 4.1.2); ``POST /token`` gives one."""

    keys: ClassVar[dict[str, bytes]] = {}
    """Key sets by their path."""

    def do_GET(self) -> None:
        """The user's browser asks."""
        place = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(place.query).items()}
        if place.path == "/health":
            self._answer(200, {"content-type": "application/json"}, b"{}")
        elif place.path in self.keys:
            self._answer(200, {"content-type": "application/json"}, self.keys[place.path])
        elif "redirect_uri" not in query:
            self._answer(400, {}, b"")
        else:
            answer = {"state": query.get("state", "")}
            answer |= {"error": query["deny"]} if "deny" in query else {"code": "conformance-code"}
            back = f"{query['redirect_uri']}?{urlencode(answer)}"
            self._answer(302, {"location": back}, b"")

    def do_POST(self) -> None:
        """The toolkit asks."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self._answer(200, {"content-type": "application/json"}, json.dumps(_TOKEN).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Be quiet."""

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in (headers | {"content-length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8899)
    parser.add_argument("--keys", type=Path, help="folder of key sets, to be had at /keys/")
    options = parser.parse_args()
    for file in options.keys.glob("*.json") if options.keys else ():
        Handler.keys[f"/keys/{file.name}"] = file.read_bytes()
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
