"""Where connections go: a target's address, resolved once, and the errors of getting there."""

from __future__ import annotations

import errno
import socket
import ssl
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from gevent import socket as gevent_socket

from loadgen.errors import TargetError
from loadgen.turn import Cause
from loadgen.wire.frame import Request

CLIENT_RESOURCE_ERRORS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN}
)
"""errno values of a connect or socket call that mean that *we* ran out of something."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A resolved target: ``addresses`` holds (family, socket address), tried in order.

    ``base_path`` stands before every path that a dialect asks for: a proxy's prefix.
    """

    origin: str
    host: str
    port: int
    addresses: tuple[tuple[int, Any], ...]
    tls: ssl.SSLContext | None
    base_path: str

    @property
    def host_header(self) -> str:
        """The ``Host`` header: without the port where it is the scheme's own."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        default = 443 if self.tls else 80
        return name if self.port == default else f"{name}:{self.port}"

    @property
    def root(self) -> str:
        """The origin in the sense of RFC 6454: ``origin`` without its path."""
        return f"{'https' if self.tls else 'http'}://{self.host_header}"

    def placed(self, request: Request) -> Request:
        """``request`` under the base path, unless a URL of the server has put it there."""
        if not self.base_path or request.path.startswith(f"{self.base_path}/"):
            return request
        return replace(request, path=self.base_path + request.path)

    @property
    def socket_uri(self) -> str:
        """The ``ws``/``wss`` URI of the root."""
        return f"{'wss' if self.tls else 'ws'}://{self.host_header}"


def resolve(host: str, tls: ssl.SSLContext | None) -> Endpoint:
    """Look the host up (IPv4 and IPv6, no proxy).  Raises TargetError when the name does not
    resolve.
    """
    parts = urlsplit(host)
    name = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = gevent_socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise TargetError(
            f"{host}: cannot resolve {name!r}: {error}; check the host name"
        ) from None
    addresses = tuple((family, address) for family, _, _, _, address in found)
    return Endpoint(host, name, port, addresses, tls, parts.path.rstrip("/"))


def describe_failure(endpoint: Endpoint, error: OSError) -> tuple[Cause, str]:
    """The cause and one line for an error of connecting or of the TLS handshake."""
    where = endpoint.origin
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        words = (
            f"{where}: certificate not trusted ({why}); give ca_file, or --insecure to accept any"
        )
        return Cause.CONNECT_FAILED, words
    if isinstance(error, ssl.SSLError):
        words = f"{where}: TLS failed ({error.reason or error})"
        return Cause.CONNECT_FAILED, f"{words}; does this port speak TLS, or is it http://?"
    if error.errno in CLIENT_RESOURCE_ERRORS:
        words = f"{where}: this machine cannot open another connection ({error.strerror})"
        return Cause.CLIENT_RESOURCE, f"{words}; raise ulimit -n or the ephemeral port range"
    if error.errno == errno.ECONNREFUSED:
        return Cause.CONNECT_FAILED, f"{where}: connection refused; is the service running?"
    return Cause.CONNECT_FAILED, f"{where}: {error.strerror or error}"
