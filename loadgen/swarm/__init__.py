"""Everything Locust: analysts as users, runs, workers, live figures."""

from loadgen.swarm.session import install
from loadgen.swarm.user import AgentUser

__all__ = ["AgentUser", "install"]
