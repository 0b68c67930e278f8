"""`AgentUser`: the Locust user that a scenario derives its analysts from."""

from __future__ import annotations

from typing import Any

import gevent
from gevent import GreenletExit
from locust import User
from locust.exception import StopUser

from loadgen.errors import LoadgenError
from loadgen.swarm.agent import Agent
from loadgen.swarm.pool import Place
from loadgen.swarm.session import session_of
from loadgen.turn import Milestone, TurnRecord


class AgentUser(User):
    """An analyst.  Its dialect, identity and habits come from the plan.

    A scenario is plain blocking Python::

        class Analyst(AgentUser):
            @task
            def turn(self):
                self.ask(self.agent.question())

    In the closed model it asks whenever it is asked to.  In the others it is one of a pool: `ask`
    waits for an arrival first.
    """

    abstract = True
    agent: Agent
    _place: Place | None = None

    def on_start(self) -> None:
        """Take a seat in the run; an analyst that finds none is the run's fault and leaves."""
        session = session_of(self.environment)
        try:
            self.agent = session.seat_agent()
        except LoadgenError as error:
            session.no_seat(error)
            # StopUser here would be logged with its traceback.
            raise GreenletExit from None
        self._place = session.place(self.agent.group)
        if self.agent.start_delay_s:
            gevent.sleep(self.agent.start_delay_s)

    def on_stop(self) -> None:
        """Leave: say goodbye to the server."""
        if self._place is not None:
            self._place.leave()
        if hasattr(self, "agent"):
            self.agent.close()

    def stop(self, force: bool = False) -> Any:
        """As Locust's; an analyst that only waits for an arrival has nothing to finish."""
        idle = self._place is not None and self._place.waiting
        return super().stop(force or idle)

    def wait_time(self) -> float:
        """Think time before the next question, in seconds; none before the next arrival."""
        if self._place is not None:
            return self._place.pause_s(self.agent.think_s)
        return self.agent.think_s()

    def ask(self, question: str, **options: Any) -> TurnRecord:
        """Put ``question`` and wait until the record of the turn exists.

        Unless the model is closed, wait first for an arrival, which in a replay brings a question
        of its own.  Once the run is being stopped no new turn starts: the user ends instead.
        """
        place = self._place
        if session_of(self.environment).stopping:
            raise StopUser
        if place is None:
            return self.agent.ask(question, **options)
        call = place.take()
        if call is None:
            raise StopUser
        record = self.agent.ask(
            call.question or question,
            scheduled_ns=call.scheduled_ns,
            begins=call.begins,
            **options,
        )
        place.ended(record.timeline.at[Milestone.ENDED])
        return record
