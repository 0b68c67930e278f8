"""``/v1/workflow/async``: runs that go on in the background, and whose status is polled.

NAT runs them in worker processes, outside the slots of its other routes.
Source: ``nat.front_ends.fastapi.routes.async_generation``, nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from loadgen.clock import NS_PER_S, wall_ns
from mockagent.agent import Agent
from mockagent.answers import answer_json, answer_nobody
from mockagent.bodies import Invalid
from mockagent.executions import Execution
from mockagent.identity import IdentityError
from mockagent.ids import new_id
from mockagent.intake import Asked, consider, read_request
from mockagent.performance import Performance
from mockagent.singles import SingleStage
from mockagent.slots import Slots
from mockagent.stage import Form, Part
from mockagent.truth import Outcome
from mockagent.users import local_time


class Job:
    """One run in the background."""

    def __init__(self, id_: str, expiry_s: int) -> None:
        self.id = id_
        self.status = "submitted"
        self.execution = Execution()
        self._expiry_ns = expiry_s * NS_PER_S
        self._created_ns = self._updated_ns = wall_ns()

    def became(self, status: str) -> None:
        """A change of its status, at this time."""
        self.status = status
        self._updated_ns = wall_ns()

    def report(self) -> dict[str, Any]:
        """All about it."""
        return {
            "job_id": self.id,
            "status": self.status,
            "error": self.execution.error,
            "created_at": local_time(self._created_ns),
            "updated_at": local_time(self._updated_ns),
            "expires_at": f"{local_time(self._updated_ns + self._expiry_ns)}Z",
            "output": self.execution.result,
        }


class JobRoutes:
    """The routes of background runs; ``slots`` of them run at a time."""

    def __init__(self, agent: Agent, schema: type[BaseModel], slots: int) -> None:
        self._agent = agent
        self._schema = schema
        self._slots = Slots(slots)
        self._jobs: dict[str, Job] = {}

    async def start(self, request: Request) -> Response:
        """Submit a job; wait for it as long as the body says.

        A job id that is known already is answered with its status, and runs nothing.
        """
        try:
            body: Any = await read_request(request.scope, request.receive, self._schema)
        except Invalid as invalid:
            return answer_json({"detail": invalid.detail}, 422)
        refusal = self._unknown(request)
        if refusal is not None:
            return refusal
        known = self._jobs.get(body.job_id)
        if known is not None:
            return answer_json({"job_id": known.id, "status": known.status})
        asked = consider(self._agent, request.scope, body, "job")
        if isinstance(asked, Response):
            return asked
        job = Job(body.job_id or new_id(), body.expiry_seconds)
        self._jobs[job.id] = job
        task = self._agent.spawn(self._run(job, asked))
        if body.sync_timeout:
            await asyncio.wait((task,), timeout=body.sync_timeout)
            if task.done():
                return answer_json(job.report())
        return answer_json({"job_id": job.id, "status": "submitted"}, 202)

    async def status(self, request: Request) -> Response:
        """What has become of a job."""
        refusal = self._unknown(request)
        if refusal is not None:
            return refusal
        id_ = request.path_params["job_id"]
        job = self._jobs.get(id_)
        if job is None:
            return answer_json({"detail": f"Job {id_} not found"}, 404)
        return answer_json(job.report())

    def _unknown(self, request: Request) -> Response | None:
        try:
            user = self._agent.identities.from_request(request.scope["headers"])
            self._agent.users.admit(user)
        except IdentityError as nobody:
            return answer_nobody(nobody)
        return None

    async def _run(self, job: Job, asked: Asked) -> None:
        form = Form.WHOLE_VALUE
        part = Part(asked.question, asked.given, asked.script, asked.faults, form, asked.user)
        stage = SingleStage(form, job.execution, None)
        outcome = Outcome.STOPPED
        try:
            async with self._slots:
                job.became("running")
                outcome = await Performance(self._agent, part, stage, asked.truth).run()
        finally:
            job.became("success" if outcome is Outcome.COMPLETED else "failure")
            self._agent.truth.end(asked.truth, outcome)
