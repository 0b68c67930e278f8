"""What NAT's WebSocket accepts from clients.

The models have NAT's fields; what does not fit is ignored by the server, without a word.
Source: ``nat.data_models.api_server``, nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, ValidationError

from mockagent.requests import Content, TextContent, UserMessageContentRoleType

_Word = Annotated[str, Field(min_length=1)]
_ErrorCode = Literal[
    "unknown_error",
    "workflow_error",
    "invalid_message",
    "invalid_message_type",
    "invalid_user_message_content",
    "invalid_data_content",
    "user_auth_error",
]


class UserMessages(BaseModel):
    """One message: its content is always a list of parts."""

    model_config = ConfigDict(extra="forbid")
    role: UserMessageContentRoleType
    content: list[Content]


class UserMessageContent(BaseModel):
    """All messages of a question or a reply."""

    model_config = ConfigDict(extra="forbid")
    messages: list[UserMessages]

    def last_user_text(self) -> str | None:
        """The first text part of the last user message that has one."""
        for message in reversed(self.messages):
            if message.role is UserMessageContentRoleType.USER:
                for part in message.content:
                    if isinstance(part, TextContent):
                        return part.text
        return None


class _User(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = "default"
    email: str = "default"


class _Error(BaseModel):
    model_config = ConfigDict(extra="forbid")
    code: _ErrorCode = "unknown_error"
    message: str = "default"
    details: str = "default"


class UserMessage(BaseModel):
    """A question."""

    schema_type: Literal["chat_stream", "chat", "generate_stream", "generate"]
    id: str = "default"
    conversation_id: str | None = None
    content: UserMessageContent
    user: _User = _User()
    error: _Error = _Error()
    schema_version: str = ""
    timestamp: str = ""


class InteractionMessage(BaseModel):
    """A reply to a prompt; of its ids none is looked at."""

    id: str = ""
    thread_id: str = ""
    parent_id: str = ""
    conversation_id: str | None = None
    content: UserMessageContent
    user: _User = _User()
    error: _Error = _Error()
    schema_version: str = ""
    timestamp: str = ""


class TokenPayload(BaseModel):
    """A JWT or an API key."""

    model_config = ConfigDict(extra="forbid")
    method: Literal["jwt", "api_key"]
    token: _Word


class BasicPayload(BaseModel):
    """A name and a password."""

    model_config = ConfigDict(extra="forbid")
    method: Literal["basic"]
    username: _Word
    password: _Word


class ModePayload(BaseModel):
    """How the client would like to be sent to an OAuth provider: no credential."""

    model_config = ConfigDict(extra="forbid")
    method: Literal["oauth_mode_preference"]
    mode: Literal["redirect", "popup"]


class AuthMessage(BaseModel):
    """A login, or the mode of one."""

    model_config = ConfigDict(extra="forbid")
    type: str
    payload: Annotated[TokenPayload | BasicPayload | ModePayload, Discriminator("method")]
    timestamp: str = ""


class Misfit(Enum):
    """Why a message is ignored; the values are the documented error codes, which the server does
    not send.
    """

    MESSAGE = "invalid_message"
    TYPE = "invalid_message_type"
    CONTENT = "invalid_user_message_content"
    DATA = "invalid_data_content"


_MESSAGES: Mapping[str, type[UserMessage | InteractionMessage | AuthMessage]] = {
    "user_message": UserMessage,
    "user_interaction_message": InteractionMessage,
    "auth_message": AuthMessage,
}


def understood(
    message: Mapping[str, Any],
) -> UserMessage | InteractionMessage | AuthMessage | Misfit:
    """What a client's message is."""
    kind = message.get("type")
    if not kind:
        return Misfit.MESSAGE
    model = _MESSAGES.get(kind) if isinstance(kind, str) else None
    if model is None:
        return Misfit.TYPE
    try:
        return model.model_validate(message)
    except ValidationError as error:
        wrong = {item["loc"][0] for item in error.errors() if item["loc"]}
        return Misfit.CONTENT if "content" in wrong else Misfit.MESSAGE
