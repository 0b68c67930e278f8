"""NAT's WebSocket: turns, prompts, logins, and taking up a turn on a new connection.

`Chat` keeps the state that NAT's ``WebSocketMessageHandler`` keeps and moves it as that does, so
that what a client meets there happens here: a turn taken over by the next socket, a reply that
nobody waits for killing the connection, a run that dies unseen because it spoke to nobody.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.types import Receive, Scope, Send

from loadgen.clock import NS_PER_S, now_ns, wall_ns
from mockagent import ws_words
from mockagent.agent import Agent
from mockagent.faults import Faults
from mockagent.frames import Timestamp, WsFrames
from mockagent.identity import IdentityError, NotAccepted, safe_session
from mockagent.intake import question_of
from mockagent.payloads import Request
from mockagent.performance import Performance
from mockagent.requests import ChatRequest
from mockagent.script import Script
from mockagent.stage import ClientGone, Form, Part
from mockagent.truth import Outcome, TurnTruth
from mockagent.workflow import Quoted, WorkflowFailure
from mockagent.ws_schema import (
    AuthMessage,
    InteractionMessage,
    Misfit,
    ModePayload,
    UserMessage,
    understood,
)
from mockagent.ws_stage import Question, Socket, WsStage

ROUTE = "/websocket"
_REFUSED = (1008, "Identity credential was rejected")
_FORMS = {
    "chat_stream": Form.STREAM,
    "generate_stream": Form.STREAM,
    "chat": Form.WHOLE_CHAT,
    "generate": Form.WHOLE_VALUE,
}
_log = logging.getLogger("mockagent")


class _Drop(Exception):
    """NAT's handler crashes here: the TCP connection ends without a close frame (1006)."""


class ChatSocket:
    """The ASGI endpoint of the WebSocket."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._numbers = count(1)
        self._conversations: dict[tuple[str, str], Chat] = {}
        self._clock = Timestamp(agent.settings.edition)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        session = query.get("session", [""])[0]
        resume = query.get("conversation_id", [""])[0] or None
        await receive()
        if session and not safe_session(session):
            await send({"type": "websocket.close", "code": 1008})
            return
        await send({"type": "websocket.accept"})
        socket = Socket(next(self._numbers), send)
        chat = Chat(self._agent, socket, self._conversations, self._clock, resume)
        happened = self._agent.truth.happened
        happened("connect", socket.number, resume)
        code = 1006
        try:
            chat.user = await self._agent.identities.from_handshake(scope["headers"], session)
            await chat.resume()
            code = await chat.serve(receive)
        except NotAccepted as refusal:
            await socket.send((ws_words.auth_answer(self._clock, None, str(refusal)),))
            await socket.close(*_REFUSED)
            code = _REFUSED[0]
        except (IdentityError, _Drop, ClientGone):
            pass
        except asyncio.CancelledError:
            if not (socket.dropped or self._agent.stopping):
                raise
        finally:
            socket.gone.set()
            happened("close", socket.number, resume or chat.conversation, code=code)


class Chat:
    """The state behind one connection."""

    def __init__(
        self,
        agent: Agent,
        socket: Socket,
        conversations: dict[tuple[str, str], Chat],
        clock: Timestamp,
        resume: str | None,
    ) -> None:
        self.user: str | None = None
        self.socket = socket
        self.conversation: str | None = None
        self.question: Question | None = None
        self.frames = WsFrames("default_id", None, clock, agent.settings.edition)
        self.running: asyncio.Task[None] | None = None
        self.popup = False
        self._agent = agent
        self._edition = agent.settings.edition
        self._conversations = conversations
        self._clock = clock
        self._resume = resume
        self._resume_tried = False
        self._stage: WsStage | None = None

    async def serve(self, receive: Receive) -> int:
        """Obey messages until the client leaves; its close code.

        Raises:
            _Drop: a message that NAT's handler does not survive.
        """
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return int(message.get("code") or 1006)
            at_ns = now_ns()
            try:
                content = orjson.loads(message.get("text") or b"")
            except ValueError:
                content = None
            if isinstance(content, dict):
                await self._obey(content, at_ns)
            elif self._edition.documented:
                await self.socket.send((ws_words.misfit(self._clock, Misfit.DATA),))
            else:
                raise _Drop

    async def _obey(self, content: dict[str, Any], at_ns: int) -> None:
        """Do what a message says; an invalid one is ignored without a word, as NAT does."""
        message = understood(content)
        if isinstance(message, UserMessage):
            await self._turn(message, at_ns)
        elif isinstance(message, AuthMessage):
            await self._login(message)
        elif isinstance(message, InteractionMessage):
            self._reply(message)
        elif self._edition.documented:
            if content.get("type") == "auth_message":
                why = ws_words.refusal_of(IdentityError(), "unknown", self._edition)
                answer = ws_words.auth_answer(self._clock, None, why)
            else:
                answer = ws_words.misfit(self._clock, message)
            await self.socket.send((answer,))

    async def resume(self) -> None:
        """Point the running turn of the asked conversation at this socket; tried once."""
        if self._resume_tried or self.user is None:
            return
        self._resume_tried = True
        other = self._conversations.get((self.user, self._resume or ""))
        if other is None:
            return
        other.socket = self.socket
        self.conversation = other.conversation
        self.question = other.question
        self.frames = other.frames
        self.running = other.running
        question = self.question
        if question is None or question.answer.done():
            return
        prompt = question.prompt
        if prompt["timeout"] is not None:
            gone_s = (now_ns() - question.asked_ns) / NS_PER_S
            prompt = prompt | {"timeout": max(round(prompt["timeout"] - gone_s), 0)}
        await self.socket.send((self.frames.prompt(prompt, wall_ns()),))
        self._happened("prompt_again")

    async def _login(self, message: AuthMessage) -> None:
        payload = message.payload
        if isinstance(payload, ModePayload):
            self.popup = payload.mode == "popup"
            if self._stage is not None:
                self._stage.prefer(self.popup)
            return
        user = refusal = None
        if self._agent.settings.reject_auth:
            refusal = "Identity credential is not accepted"
        else:
            try:
                user = await self._agent.identities.from_payload(payload.model_dump())
            except IdentityError as error:
                refusal = ws_words.refusal_of(error, payload.method, self._edition)
        self._happened("auth_message", ok=user is not None, method=payload.method)
        self.user = user or self.user
        await self.socket.send((ws_words.auth_answer(self._clock, user, refusal),))
        if user is not None:
            await self.resume()

    def _reply(self, message: InteractionMessage) -> None:
        """The human's answer.  Only the first one, while it is waited for, is survived."""
        value = message.content.last_user_text()
        question = self.question
        wanted = question is not None and not question.answer.done() and value is not None
        self._happened("reply", wanted=wanted)
        if question is None or question.answer.done() or value is None:
            raise _Drop
        question.answer.set_result(value)

    async def _turn(self, asked: UserMessage, at_ns: int) -> None:
        agent = self._agent
        self.conversation = asked.conversation_id
        frames = self.frames = WsFrames(asked.id, self.conversation, self._clock, self._edition)
        if self.user and self.conversation:
            self._conversations[self.user, self.conversation] = self
        self._happened("user_message", id=asked.id, authenticated=self.user is not None)
        what = _asked(asked)
        if what is None:
            await self.socket.send((ws_words.unusable(frames),))
            return
        truth = agent.truth.begin(asked.id, self.conversation, "ws", ROUTE, at_ns)
        if agent.settings.require_auth and self.user is None:
            agent.truth.end(truth, Outcome.REFUSED)
            await self.socket.send(ws_words.unauthenticated(frames))
            return
        question, given = what
        words = agent.plan(question) if isinstance(question, str) else (Script(), Faults())
        truth.tag = words[0].tag
        await self._cancel_running()
        form = _FORMS[asked.schema_type]
        part = Part(question, given, *words, form=form, user=self.user)
        self._stage = WsStage(self)
        task = agent.spawn(self._perform(part, truth, self._stage))
        self.running = task
        key = (self.user, self.conversation)
        task.add_done_callback(lambda done: self._settle(done, key, truth))

    async def _cancel_running(self) -> None:
        """The turn before, if any, ends without a word to anyone."""
        if self.running is not None:
            self.running.cancel()
            await asyncio.wait((self.running,))
            self.running = None

    def _settle(
        self, done: asyncio.Task[None], key: tuple[str | None, str | None], truth: TurnTruth
    ) -> None:
        """A turn is over, even one that was displaced before it could begin."""
        if not truth.ended_ns:
            stopped = self._agent.stopping
            self._agent.truth.end(truth, Outcome.STOPPED if stopped else Outcome.CANCELLED)
        self._forget(done, key)

    def _forget(self, done: asyncio.Task[None], key: tuple[str | None, str | None]) -> None:
        if self.running is done:
            self.running = None
        user, conversation = key
        if user and conversation and self.running is None:
            place = (user, conversation)
            if self._conversations.get(place) is self:
                del self._conversations[place]

    async def _perform(self, part: Part, truth: TurnTruth, stage: WsStage) -> None:
        agent = self._agent
        outcome = Outcome.FAILED
        performance = Performance(agent, part, stage, truth)
        try:
            with agent.users.session(part.user) as session:
                async with session.slots:
                    outcome = await performance.run()
                session.failed = outcome is Outcome.FAILED
        except IdentityError as error:
            await self.socket.send(ws_words.nobody(self.frames, error))
        except ClientGone:
            outcome = Outcome.CLIENT_GONE
        except asyncio.CancelledError:
            outcome = Outcome.STOPPED if agent.stopping else Outcome.CANCELLED
        except Exception:  # noqa: BLE001 - the boundary of a task: nobody else would see it
            _log.exception("a turn broke: this is a fault of the mock")
        finally:
            agent.truth.end(truth, outcome)
        if outcome is Outcome.CLIENT_GONE and part.script.block_ms > 0:
            agent.spawn(performance.haunt())

    def _happened(self, what: str, **facts: Any) -> None:
        where = self.conversation or self._resume
        self._agent.truth.happened(what, self.socket.number, where, **facts)


def _asked(message: UserMessage) -> tuple[str | WorkflowFailure, str | Quoted] | None:
    """The question, and what the workflow is given: the messages, or on ``generate`` the last text
    of the user; None when there is none.
    """
    if message.schema_type.startswith("generate"):
        text = message.content.last_user_text()
        return None if text is None else (text, text)
    body = ChatRequest.model_validate(message.content.model_dump())
    return question_of(body, None), Request(body)
