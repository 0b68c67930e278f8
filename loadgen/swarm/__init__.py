"""Everything Locust: analysts as users, runs, workers, live figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadgen.swarm.session import install
    from loadgen.swarm.user import AgentUser

__all__ = ["AgentUser", "install"]


def __getattr__(name: str) -> Any:
    """Locust patches the whole process when it is imported, so only a scenario imports it."""
    if name == "install":
        from loadgen.swarm.session import install

        return install
    if name == "AgentUser":
        from loadgen.swarm.user import AgentUser

        return AgentUser
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
