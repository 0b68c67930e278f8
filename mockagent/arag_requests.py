"""What clients send, as Hyperforge validates it.

Source: ``hyperforge.api.models`` and ``hyperforge.pubsub``, 1.0.0.post437.  Class names are the
server's: they are in the texts of errors.
"""

from __future__ import annotations

import json
from enum import Enum, IntEnum
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ValidationError


class InteractionOperation(IntEnum):
    """What a question is; the server does not look at it."""

    QUESTION = 0
    QUIT = 1


class HistoryQuestionAnswer(BaseModel):
    """One exchange of a client's own history."""

    question: str
    answer: str


class InteractionRequest(BaseModel):
    """A question."""

    question: str
    headers: dict[str, str] = {}
    arguments: dict[str, str] = {}
    chat_history: list[HistoryQuestionAnswer] | None = None
    operation: InteractionOperation = InteractionOperation.QUESTION
    streaming: bool = False


class UserToAgentInteraction(BaseModel):
    """A reply to a request of the agent."""

    op: Literal["user_response"] = "user_response"
    request_id: str
    response: str


class DocumentedReply(BaseModel):
    """A reply as the documentation has it: a text, or credentials beside the id."""

    request_id: str
    response: str | None = None
    existing_credentials: dict[str, str | dict[str, str]] | None = None

    @property
    def text(self) -> str:
        """The reply in the form of the server, which wants named parts of each credential."""
        if self.response is not None:
            return self.response
        existing = {
            resource: {"access_token": given} if isinstance(given, str) else given
            for resource, given in (self.existing_credentials or {}).items()
        }
        return json.dumps({"existing_credentials": existing})


class TextFormat(Enum):
    """Of a stored session's text."""

    PLAIN = "PLAIN"
    HTML = "HTML"
    RST = "RST"
    MARKDOWN = "MARKDOWN"
    JSON = "JSON"
    KEEP_MARKDOWN = "KEEP_MARKDOWN"
    JSONL = "JSONL"
    PLAIN_BLANKLINE_SPLIT = "PLAIN_BLANKLINE_SPLIT"


class SessionData(BaseModel):
    """A session to store."""

    slug: str
    name: str
    summary: str
    data: str
    format: TextFormat


class NotJson(ValueError):
    """A message that is no JSON text: the server reads no more after it."""


class BadMessage(ValueError):
    """A message that does not fit; ``errors`` are pydantic's."""

    def __init__(self, errors: list[Any]) -> None:
        super().__init__(errors)
        self.errors = errors


def read_message(text: str | None) -> Any:
    """The value of a message; ``text`` None is a binary one.

    Raises:
        NotJson: it is none.
    """
    if text is None:
        raise NotJson
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise NotJson from None


def understood_question(value: Any) -> InteractionRequest:
    """A message as a question.

    Raises:
        BadMessage: it is none.
    """
    try:
        return InteractionRequest.model_validate(value)
    except ValidationError as error:
        raise BadMessage(error.errors()) from None


def understood_reply(value: Any, documented: bool) -> str:
    """The text of a message that is a reply.

    Raises:
        BadMessage: it is none.
    """
    try:
        if documented:
            return DocumentedReply.model_validate(value).text
        return UserToAgentInteraction.model_validate(value).response
    except ValidationError as error:
        raise BadMessage(error.errors()) from None
