"""`AgentUser`: the Locust user that a scenario derives its analysts from."""

from __future__ import annotations

from typing import Any

from locust import User
from locust.exception import StopUser

from loadgen.errors import LoadgenError
from loadgen.swarm.agent import Agent
from loadgen.swarm.session import session_of
from loadgen.turn import TurnRecord


class AgentUser(User):
    """An analyst.  Its dialect, identity and habits come from the plan.

    A scenario is plain blocking Python::

        class Analyst(AgentUser):
            @task
            def turn(self):
                self.ask(self.agent.question())
    """

    abstract = True
    agent: Agent

    def on_start(self) -> None:
        """Take a seat in the run; an analyst that finds none is the run's fault and leaves."""
        session = session_of(self.environment)
        try:
            self.agent = session.seat_agent()
        except LoadgenError as error:
            session.no_seat(error)
            raise StopUser from None

    def on_stop(self) -> None:
        """Leave: say goodbye to the server."""
        if hasattr(self, "agent"):
            self.agent.close()

    def wait_time(self) -> float:
        """Think time before the next question, in seconds."""
        return self.agent.think_s()

    def ask(self, question: str, **options: Any) -> TurnRecord:
        """Put ``question`` and wait until the record of the turn exists.

        Once the run is being stopped no new turn starts: the user ends instead.
        """
        if session_of(self.environment).stopping:
            raise StopUser
        return self.agent.ask(question, **options)
