"""An OAuth authorization server on loopback, by TLS, because Hyperforge shows its users no other
login: it grants every consent.

    python tests/conformance/hyperforge/provider.py --port 8898 --folder /tmp/x

Its certificate is made at start, for 127.0.0.1; the authority that a client must trust is then in
``authority.pem`` of the folder.  ``&deny=access_denied`` on the URL of the consent is a user who
refuses.
"""

from __future__ import annotations

import argparse
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import trustme

AUTHORITY = "authority.pem"


class Handler(BaseHTTPRequestHandler):
    """``GET /authorize`` redirects back at once (RFC 6749, 4.1.2)."""

    def do_GET(self) -> None:
        """The user's browser asks."""
        place = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(place.query).items()}
        if place.path == "/health":
            self._answer(200, {})
        elif place.path != "/authorize" or "redirect_uri" not in query:
            self._answer(400, {})
        else:
            answer = {"state": query.get("state", "")}
            answer |= {"error": query["deny"]} if "deny" in query else {"code": "conformance-code"}
            back = query["redirect_uri"]
            joint = "&" if "?" in back else "?"
            self._answer(302, {"location": f"{back}{joint}{urlencode(answer)}"})

    def log_message(self, format: str, *args: object) -> None:
        """Be quiet."""

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"content-length": "0"}).items():
            self.send_header(name, value)
        self.end_headers()


def context(folder: Path) -> ssl.SSLContext:
    """A certificate for loopback; its authority is written to the ``folder``."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / AUTHORITY)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(made)
    return made


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--port", type=int, default=8898)
    parser.add_argument("--folder", type=Path, default=Path())
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    # The handshake belongs to a client's own thread, not to the one that accepts.
    server.socket = context(options.folder).wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.serve_forever()


if __name__ == "__main__":
    main()
