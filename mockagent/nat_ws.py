"""NAT's WebSocket: turns, prompts, logins, and taking up a turn on a new connection.

`Chat` keeps the state that NAT's ``WebSocketMessageHandler`` keeps and moves it as that does, so
that what a client meets there happens here: a turn taken over by the next socket, a reply that
nobody waits for killing the connection, a run that dies unseen because it spoke to nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import count
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.types import Receive, Scope, Send

from loadgen.clock import NS_PER_S, now_ns, wall_ns
from mockagent import nat_schema, payloads
from mockagent.agent import Agent
from mockagent.faults import Faults
from mockagent.frames import Timestamp, WsFrames, json_text
from mockagent.identity import IdentityError, from_connection, from_payload, safe_session
from mockagent.nat_schema import UserMessage
from mockagent.performance import Performance
from mockagent.script import Script
from mockagent.stage import ClientGone, Form, Part
from mockagent.truth import Outcome, TurnTruth
from mockagent.ws_stage import Question, Socket, WsStage

ROUTE = "/websocket"
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
        self._clock = Timestamp()

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
            chat.user = from_connection(scope["headers"], session)
            await chat.resume()
            code = await chat.serve(receive)
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
        self.frames: WsFrames | None = None
        self.running: asyncio.Task[None] | None = None
        self._agent = agent
        self._conversations = conversations
        self._clock = clock
        self._resume = resume
        self._resume_tried = False

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
                raise _Drop from None
            if not isinstance(content, dict):
                raise _Drop
            await self._obey(content, at_ns)

    async def _obey(self, content: Mapping[str, Any], at_ns: int) -> None:
        """Do what a message says; an invalid one is ignored without a word, as NAT does."""
        kind = content.get("type")
        if kind == "user_message":
            asked = nat_schema.user_message(content)
            if asked is not None:
                await self._turn(asked, at_ns)
        elif kind == "auth_message":
            payload = nat_schema.auth_payload(content)
            if payload is not None:
                await self._login(payload)
        elif kind == "user_interaction_message":
            messages = nat_schema.interaction(content)
            if messages is not None:
                self._reply(messages)

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
        if question is None or question.answer.done() or self.frames is None:
            return
        prompt = question.prompt
        if prompt["timeout"] is not None:
            gone_s = (now_ns() - question.asked_ns) / NS_PER_S
            prompt = prompt | {"timeout": max(round(prompt["timeout"] - gone_s), 0)}
        await self.socket.send((self.frames.prompt(prompt, wall_ns()),))
        self._happened("prompt_again")

    async def _login(self, payload: Mapping[str, Any]) -> None:
        if payload["method"] == "oauth_mode_preference":
            return
        user = refusal = None
        if self._agent.settings.reject_auth:
            refusal = "Identity credential is not accepted"
        else:
            try:
                user = from_payload(payload)
            except IdentityError as error:
                refusal = str(error)
        self._happened("auth_message", ok=user is not None, method=payload["method"])
        trouble = {
            "code": "user_auth_error",
            "message": "Authentication failed",
            "details": refusal,
        }
        answer = {
            "type": "auth_response_message",
            "status": "success" if user else "error",
            "user_id": user,
            "payload": None if user else trouble,
            "timestamp": self._clock.text(wall_ns()),
        }
        self.user = user or self.user
        await self.socket.send((json_text(answer),))
        if user is not None:
            await self.resume()

    def _reply(self, messages: list[dict[str, Any]]) -> None:
        """The human's answer.  Only the first one, while it is waited for, is survived."""
        value = nat_schema.last_user_text(messages)
        question = self.question
        wanted = question is not None and not question.answer.done() and value is not None
        self._happened("reply", wanted=wanted)
        if question is None or question.answer.done() or value is None:
            raise _Drop
        question.answer.set_result(value)

    async def _turn(self, asked: UserMessage, at_ns: int) -> None:
        agent = self._agent
        self.conversation = asked.conversation
        frames = self.frames = WsFrames(asked.id, asked.conversation, self._clock)
        if self.user and asked.conversation:
            self._conversations[self.user, asked.conversation] = self
        self._happened("user_message", id=asked.id, authenticated=self.user is not None)
        form = _FORMS[asked.schema]
        if asked.schema.startswith("generate"):
            question = nat_schema.last_user_text(asked.messages)
            if question is None:
                await self.socket.send((_unusable(frames),))
                return
            given = question
        else:
            question = nat_schema.last_text(asked.messages)
            given = payloads.request_text(asked.messages, {})
        truth = agent.truth.begin(asked.id, asked.conversation, "ws", ROUTE, at_ns)
        if agent.settings.require_auth and self.user is None:
            agent.truth.end(truth, Outcome.REFUSED)
            await self.socket.send(_unauthenticated(frames))
            return
        script, faults = (Script(), Faults()) if question is None else agent.plan(question)
        truth.tag = script.tag
        await self._cancel_running()
        part = Part(question, given, script, faults, form)
        task = asyncio.create_task(self._perform(part, truth, frames))
        self.running = task
        agent.performing.add(task)
        key = (self.user, asked.conversation)
        task.add_done_callback(lambda done: self._forget(done, key))

    async def _cancel_running(self) -> None:
        """The turn before, if any, ends without a word to anyone."""
        if self.running is not None:
            self.running.cancel()
            await asyncio.wait((self.running,))
            self.running = None

    def _forget(self, done: asyncio.Task[None], key: tuple[str | None, str | None]) -> None:
        self._agent.performing.discard(done)
        if self.running is done:
            self.running = None
        user, conversation = key
        if user and conversation and self.running is None:
            place = (user, conversation)
            if self._conversations.get(place) is self:
                del self._conversations[place]

    async def _perform(self, part: Part, truth: TurnTruth, frames: WsFrames) -> None:
        agent = self._agent
        outcome = Outcome.FAILED
        try:
            async with agent.slots:
                stage = WsStage(self, frames)
                outcome = await Performance(part, stage, truth, agent.deadlines).run()
        except ClientGone:
            outcome = Outcome.CLIENT_GONE
        except asyncio.CancelledError:
            outcome = Outcome.STOPPED if agent.stopping else Outcome.CANCELLED
        except Exception:  # noqa: BLE001 - the boundary of a task: nobody else would see it
            _log.exception("a turn broke: this is a fault of the mock")
        finally:
            agent.truth.end(truth, outcome)

    def _happened(self, what: str, **facts: Any) -> None:
        where = self.conversation or self._resume
        self._agent.truth.happened(what, self.socket.number, where, **facts)


def _unusable(frames: WsFrames) -> str:
    return frames.error(
        "invalid_user_message_content",
        "User message content could not be found",
        "No user text content found in messages.",
        wall_ns(),
    )


def _unauthenticated(frames: WsFrames) -> tuple[str, str]:
    """A refusal that only this mock gives (``--require-auth``)."""
    details = "no identity on the connection and no auth_message before the user_message"
    error = frames.error("user_auth_error", "Authentication required", details, wall_ns())
    return error, frames.complete(wall_ns())
