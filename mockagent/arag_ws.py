"""The session socket of Progress Agentic RAG: questions, replies, and what else clients say.

Source: ``hyperforge.api.v1.interaction``, 1.0.0.post437.  Bad and unexpected messages are answered
with errors that end nothing; what is no JSON ends the socket.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from typing import Any
from urllib.parse import parse_qs

from pydantic import TypeAdapter, ValidationError
from starlette.types import Receive, Scope, Send

from loadgen.clock import now_ns
from mockagent.arag_frames import AragFrames
from mockagent.arag_requests import (
    BadMessage,
    InteractionOperation,
    InteractionRequest,
    NotJson,
    read_message,
    understood_question,
    understood_reply,
)
from mockagent.arag_sessions import Unknown
from mockagent.arag_stage import SocketStage
from mockagent.arag_turns import Arag, Place, Turn
from mockagent.stage import ClientGone
from mockagent.ws_stage import Socket

SOCKETS = (
    "/api/v1/agent/{agent}/session/{session}/ws",
    "/api/v1/agent/{agent}/workflow/{workflow}/session/{session}/ws",
)
_BOOL: TypeAdapter[bool] = TypeAdapter(bool)
_NUMBERS = count(1_000_000)
"""Of sockets, apart from those of NAT's."""


class AragSocket:
    """The ASGI endpoint of both paths."""

    def __init__(self, arag: Arag) -> None:
        self._arag = arag

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        agent, settings = self._arag.agent, self._arag.agent.settings
        query = {
            name: values[-1]
            for name, values in parse_qs(
                scope["query_string"].decode("latin-1"), keep_blank_values=True
            ).items()
        }
        params = scope["path_params"]
        workflow = params.get("workflow") or query.get("workflow_id", "default")
        place = Place(params["agent"], workflow, params["session"], scope["path"])
        number = next(_NUMBERS)
        await receive()
        keep_open = _flag(query.get("keep_open"), settings.edition.documented)
        create = _flag(query.get("create_session_if_not_exists"), True)
        known = self._arag.tokens.accept(query.get("eph-token", ""), now_ns())
        if keep_open is None or create is None or (settings.arag.require_token and not known):
            agent.truth.happened("refused", number, place.session, code=403)
            await send({"type": "websocket.close", "code": 1008})
            return
        await send({"type": "websocket.accept"})
        agent.truth.happened("connect", number, place.session)
        chat = AragChat(self._arag, Socket(number, send), place, scope, keep_open)
        code = 1006
        try:
            if await chat.enter(create, _cursor(query.get("from_cursor"))):
                code = await chat.serve(receive)
        except ClientGone:
            pass
        except asyncio.CancelledError:
            if not (chat.socket.dropped or agent.stopping):
                raise
        finally:
            chat.leave()
            agent.truth.happened("close", number, place.session, code=code)


class AragChat:
    """The state behind one socket."""

    def __init__(
        self, arag: Arag, socket: Socket, place: Place, scope: Scope, keep_open: bool
    ) -> None:
        self.socket = socket
        self._arag = arag
        self._place = place
        self._scope = scope
        self._keep_open = keep_open
        self._documented = arag.agent.settings.edition.documented
        self._cursor: int | None = None
        self._turn: Turn | None = None
        self._deaf = False

    async def enter(self, create: bool, cursor: int | None) -> bool:
        """Look at the workflow and the session, before any question; whether they are there."""
        place, sessions = self._place, self._arag.sessions
        try:
            try:
                sessions.check(place.agent, place.workflow)
            except Unknown as unknown:
                raise Unknown(f"Failed to verify agent configuration: {unknown}") from None
            session = sessions.enter(place.agent, place.session, create)
        except Unknown as unknown:
            await self._error(str(unknown))
            await self.socket.close()
            return False
        self._place = Place(place.agent, place.workflow, session, place.path)
        self._cursor = cursor if self._arag.agent.settings.arag.resume else None
        lost = self._arag.adopt(self._place)
        if lost is not None:
            await lost.stage.move(self.socket)
            self._follow(lost)
        return True

    async def serve(self, receive: Receive) -> int:
        """Obey messages until the client leaves; its close code."""
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return int(message.get("code") or 1006)
            if self._deaf:
                continue
            try:
                value = read_message(message.get("text"))
            except NotJson:
                self._deaf = True
                if self._turn is None or self._turn.stage.waits:
                    await self.socket.close()
                continue
            await self._obey(value)

    def leave(self) -> None:
        """The socket is no more; its turn goes on, unless the mock is told otherwise."""
        self.socket.gone.set()
        turn = self._turn
        if turn is None or turn.task.done() or turn.stage.socket is not self.socket:
            return
        turn.stage.leave()
        if self._arag.agent.settings.arag.stop_on_leave:
            turn.task.cancel()
        else:
            self._arag.lose(self._place, turn)

    async def _obey(self, value: Any) -> None:
        turn = self._turn
        try:
            if self._documented and _quits(value):
                await self._quit()
            elif turn is None:
                await self._ask(understood_question(value))
            elif turn.stage.waits:
                text = understood_reply(value, self._documented)
                self._happened("reply", wanted=True)
                turn.stage.reply(text)
            else:
                self._happened("reply", wanted=False)
                await self._error("Unexpected message from user")
        except BadMessage as bad:
            await self._error("Invalid request payload", {"validation_errors": bad.errors})

    async def _ask(self, asked: InteractionRequest) -> None:
        """Begin a turn, or take up the one of a client that asks for its missed frames."""
        arag = self._arag
        cursor, self._cursor = self._cursor, None
        resumed = arag.resumable(self._place, asked.question) if cursor is not None else None
        if resumed is not None:
            self._happened("resumed", cursor=cursor)
            await resumed.stage.move(self.socket, cursor)
            self._follow(resumed)
            return
        plan = arag.plan(asked.question)
        truth = arag.begin(asked, plan, self._place, "arag-ws", self._scope["headers"])
        client = self._scope["client"]
        stage = SocketStage(
            self.socket,
            keep=arag.agent.settings.arag.resume,
            reset=(lambda: arag.agent.reset(client)) if plan.words.reset else None,
            close_code=plan.words.close_code,
        )
        performance = arag.performance(asked, plan, self._place, stage, truth)
        self._happened("question", id=truth.id, operation=int(asked.operation))
        task = arag.launch(performance, asked.question, self._place, truth)
        turn = Turn(asked.question, stage, performance, task)
        arag.keep(self._place, turn)
        self._follow(turn)

    def _follow(self, turn: Turn) -> None:
        """Make ``turn`` the one that messages are about, until it is over."""
        self._turn = turn
        turn.task.add_done_callback(lambda _: self._ended(turn))

    def _ended(self, turn: Turn) -> None:
        """The next question may come, or the socket ends with its turn."""
        if self._turn is not turn:
            return
        if self._keep_open and not self._deaf and not turn.performance.parts:
            self._turn = None
        elif not (self.socket.gone.is_set() or self._arag.agent.stopping):
            self._arag.agent.spawn(self._hang_up())

    async def _hang_up(self) -> None:
        """The close behind a turn; the client's own may be under way."""
        with suppress(OSError, RuntimeError):
            await self.socket.close()

    async def _quit(self) -> None:
        """The documented end of an interaction: a QUIT frame, and the close.

        The documentation has ``quit = 1`` among the operations of the server's messages, too.
        """
        self._happened("quit")
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.task.cancel()
            await asyncio.wait((turn.task,))
        await self.socket.send((self._frames().quit(),))
        await self.socket.close()

    async def _error(self, detail: str, extra: dict[str, Any] | None = None) -> None:
        await self.socket.send((self._frames().error(detail, extra=extra),))

    def _frames(self) -> AragFrames:
        return AragFrames(self._arag.agent.settings.edition)

    def _happened(self, what: str, **facts: Any) -> None:
        self._arag.agent.truth.happened(what, self.socket.number, self._place.session, **facts)


def _quits(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    operation = value.get("operation")
    return operation == InteractionOperation.QUIT and not isinstance(operation, bool)


def _flag(text: str | None, default: bool) -> bool | None:
    """A flag of the query; None: it is no flag."""
    if text is None:
        return default
    try:
        return _BOOL.validate_python(text)
    except ValidationError:
        return None


def _cursor(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
