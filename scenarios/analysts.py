"""Insurance research analysts over SSE and WebSocket: ``locust -f scenarios/analysts.py``.

Who they are, what they ask and what is expected of the agent stands in ``analysts.toml`` (or in the
file that ``--plan`` names).  Without ``--host`` the bundled mock agent answers.
"""

from pathlib import Path

from locust import task

from loadgen.swarm import AgentUser, install

install(Path(__file__).with_suffix(".toml"))


class Analyst(AgentUser):
    """Asks, watches the answer arrive, answers prompts, thinks, asks again."""

    @task
    def turn(self) -> None:
        self.ask(self.agent.question())
