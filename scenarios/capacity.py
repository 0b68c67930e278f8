"""How many analysts can it hold?  ``locust -f scenarios/capacity.py --headless``.

Level after level of the same analysts as in ``analysts.py``, until the largest one is found that
meets the targets of the plan.  ``[capacity]`` of the plan says where to look; ``--levels`` measures
levels of one's own choice instead.  Without ``--host`` the bundled mock agent answers.
"""

from pathlib import Path

from locust import task

from loadgen.swarm import AgentUser, install

install(Path(__file__).with_suffix(".toml"), searches=True)


class Analyst(AgentUser):
    """Asks, watches the answer arrive, answers prompts, thinks, asks again."""

    @task
    def turn(self) -> None:
        self.ask(self.agent.question())
