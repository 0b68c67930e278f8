"""What all routes of one mock share: its settings, users, truth, prompts and clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from mockagent.arag_settings import AragSettings
from mockagent.consents import Consents
from mockagent.crosstalk import Crosstalk
from mockagent.deadlines import Deadlines
from mockagent.edition import Edition
from mockagent.executions import Executions
from mockagent.faults import Faults
from mockagent.identity import Credential, Identities
from mockagent.jwt_verifier import JwtPolicy, JwtVerifier
from mockagent.network import Network
from mockagent.profile import Profile
from mockagent.script import Script
from mockagent.truth import TruthLog
from mockagent.users import Users
from mockagent.words import read_words, typed_words

_REMEMBERED = 100_000
"""Texts whose occurrences are counted; beyond that counting starts anew."""
_STEERING = {word.name for owner in (Script, Faults) for word in fields(owner)} - {"tag"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says; ``slots`` 0 is no cap, ``truth_limit`` in lines, ``_s`` in
    seconds.
    """

    slots: int = 0
    seed: int = 0
    profile: Profile = field(default_factory=Profile)
    require_auth: bool = False
    reject_auth: bool = False
    truth_limit: int = 1_000_000
    edition: Edition = Edition.SERVER
    interactive_completions: bool = False
    legacy_routes: bool = True
    workflow_input: str | None = None
    """The one parameter of the workflow; None: the workflow is an agent."""
    accepted_credentials: frozenset[Credential] | None = None
    identity_header: str | None = None
    jwt: JwtPolicy | None = None
    per_user: bool = False
    oauth: bool = True
    oauth_timeout_s: float = 300.0
    prompt_grace_s: float = 5.0
    keep_alive_s: int = 5
    job_slots: int = 10
    executions_kept: int = 100_000
    """Executions that are remembered; 0: all, as NAT does."""
    arag: AragSettings = field(default_factory=AragSettings)
    network: Network = field(default_factory=Network)
    faults: tuple[tuple[str, str], ...] = ()
    """Words of `Faults` that count on each question that says nothing else."""
    crosstalk: float = 0.0
    """Share of the turns that get another one's answer."""


class Agent:
    """The state of a running mock."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.network = settings.network
        self.always = settings.faults
        self.crosstalk = Crosstalk(settings.crosstalk, settings.seed)
        self.truth = TruthLog(settings.truth_limit)
        self.origin = ""
        """Where clients reach this mock."""
        self.deadlines = Deadlines()
        self.connections: Callable[[], int] = lambda: 0
        """How many TCP connections are open; the server knows."""
        self.reset: Callable[[tuple[str, int] | None], None] = lambda client: None
        """Reset the TCP connection of the client at that address; the server can."""
        self.control: Callable[[Request], Awaitable[Response]] = _uncontrolled
        """What answers ``/_control``; the server can."""
        self.stopping = False
        self.performing: set[asyncio.Task[None]] = set()
        """The tasks of running turns."""
        self.begin()

    def begin(self) -> None:
        """Know nobody and nothing, as a process that has just been started; the truth stays."""
        settings = self.settings
        self.users = Users(settings.slots, settings.per_user)
        self.identities = Identities(
            settings.accepted_credentials,
            JwtVerifier(settings.jwt) if settings.jwt else None,
            settings.identity_header,
        )
        self.consents = Consents(settings.oauth_timeout_s) if settings.oauth else None
        if self.consents is not None:
            self.consents.origin = self.origin
        self.executions = Executions(settings.executions_kept)
        self._asked: Counter[str] = Counter()
        self._services = 0

    def plan(
        self, question: str, more_steering: frozenset[str] = frozenset()
    ) -> tuple[Script, Faults]:
        """What to do about ``question``: what its words say, or the profile when none steers.

        ``tag`` does not steer; ``more_steering`` are words of one family of routes.  The draw
        depends on the seed, the text, and how often the text was asked before: not on which of many
        analysts asks first.
        """
        words = read_words(question)
        if steers(words, more_steering):
            return Script.from_words(words), self.faults(words)
        if len(self._asked) >= _REMEMBERED:
            self._asked.clear()
        self._asked[question] += 1
        rng = Random(f"{self.settings.seed}\0{question}\0{self._asked[question]}")
        script, faults = self.settings.profile.draw(rng, Script.from_words(words).tag)
        return script, replace(faults, **typed_words(self.always, Faults))

    def faults(self, words: Sequence[tuple[str, str]]) -> Faults:
        """The faults of a question with ``words``; the n-th ``service_ms`` of a mock's life depends
        on the seed and n only.
        """
        faults = Faults.from_words([*self.always, *words])
        if faults.service_ms <= 0:
            return faults
        self._services += 1
        rng = Random(f"{self.settings.seed}\0service\0{self._services}")
        drawn_ms = rng.expovariate(1 / faults.service_ms)
        return replace(faults, first_ms=faults.first_ms + drawn_ms)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` beside everything else, to its end or that of the mock."""
        task = asyncio.create_task(work)
        self.performing.add(task)
        task.add_done_callback(self.performing.discard)
        return task

    def stop(self) -> None:
        """Break off all running turns; nothing may be asked after this."""
        self.stopping = True
        for task in list(self.performing):
            task.cancel()


async def _uncontrolled(request: Request) -> Response:
    return Response("there is no server to control", 501)


def steers(words: Sequence[tuple[str, str]], more: frozenset[str] = frozenset()) -> bool:
    """Whether ``words`` leave nothing to the profile."""
    return any(key in _STEERING or key in more for key, _ in words)
