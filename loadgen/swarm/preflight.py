"""Before the first analyst: can the target be reached at all?"""

from __future__ import annotations

from gevent import socket

from loadgen.errors import TargetError
from loadgen.net.endpoint import Endpoint, describe_failure


def check_target(endpoint: Endpoint, timeout_s: float) -> None:
    """Connect once, with TLS where the target has it.  Raises TargetError with what to do."""
    last: OSError | None = None
    for family, address in endpoint.addresses:
        probe = socket.socket(family, socket.SOCK_STREAM)
        try:
            probe.settimeout(timeout_s)
            probe.connect(address)
            if endpoint.tls is not None:
                endpoint.tls.wrap_socket(probe, server_hostname=endpoint.host)
        except OSError as error:
            last = error
        else:
            return
        finally:
            probe.close()
    if last is not None:
        if isinstance(last, TimeoutError) and last.strerror is None:
            last = TimeoutError(0, f"no answer within {timeout_s:g} s; is the address right?")
        raise TargetError(describe_failure(endpoint, last)[1])
