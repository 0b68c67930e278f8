"""Which NAT the mock plays: the server as it is, or the server as it is documented."""

from __future__ import annotations

from enum import Enum


class Edition(Enum):
    """The two differ in the words of WebSocket messages and in what is forgiven.

    ``SERVER`` is nvidia-nat-core 1.9.0 on the wire; ``DOCUMENTED`` what its published WebSocket
    schema and its HTTP interaction guide describe.
    """

    SERVER = "server"
    DOCUMENTED = "documented"

    @property
    def documented(self) -> bool:
        """Whether the documents rule."""
        return self is Edition.DOCUMENTED
