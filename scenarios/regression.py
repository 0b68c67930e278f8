"""Baseline and candidate in one run: ``locust -f scenarios/regression.py`` or ``loadgen ab``.

Each conversation of an analyst goes to one of the two, in the order A, B, B, A: same analysts, same
minute, so that a noisy machine meets both alike.  ``--baseline URL --candidate URL`` name them;
without, two bundled mock agents answer (``--mock-args`` twice makes them differ).
"""

from pathlib import Path

from locust import task

from loadgen.swarm import AgentUser, install

install(Path(__file__).with_suffix(".toml"), two_sides=True)


class Analyst(AgentUser):
    """As in ``analysts.py``: asks, watches the answer arrive, answers prompts, thinks."""

    @task
    def turn(self) -> None:
        self.ask(self.agent.question())
