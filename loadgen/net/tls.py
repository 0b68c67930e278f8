"""TLS over memory: kernel arrival stamps survive encryption, since we read the socket ourselves.

Building an `ssl.SSLContext` blocks the hub for some 28 ms: one a process.
"""

from __future__ import annotations

import ssl

from loadgen.errors import ConfigError

_READ_SIZE = 65_536


def client_context(*, verify: bool = True, ca_file: str | None = None) -> ssl.SSLContext:
    """The process's client context.  Verifies by default.  Raises ConfigError for an unreadable
    ``ca_file``.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"target.ca_file: cannot use {ca_file}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class TlsSession:
    """One TLS connection between two byte streams; sans-I/O."""

    __slots__ = ("_incoming", "_object", "_outgoing", "established")

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self.established = False

    def handshake(self, received: bytes = b"") -> bytes:
        """Take ciphertext, go on with the handshake, give the bytes to send.  Raises ssl.SSLError
        when it fails.
        """
        if received:
            self._incoming.write(received)
        try:
            self._object.do_handshake()
            self.established = True
        except ssl.SSLWantReadError:
            pass
        return self._outgoing.read()

    def alert(self) -> bytes:
        """What is left to send after a failed handshake."""
        return self._outgoing.read()

    def decrypt(self, received: bytes = b"") -> tuple[bytes, bool]:
        """Plain bytes of ``received`` and whether that was all: the peer closed, or broke TLS."""
        if received:
            self._incoming.write(received)
        parts: list[bytes] = []
        closed = False
        while True:
            try:
                part = self._object.read(_READ_SIZE)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError:
                closed = True
                break
            if not part:
                closed = True
                break
            parts.append(part)
        return b"".join(parts), closed

    def encrypt(self, data: bytes) -> bytes:
        """Ciphertext of ``data``, and whatever TLS itself wants to say."""
        if data:
            self._object.write(data)
        return self._outgoing.read()
