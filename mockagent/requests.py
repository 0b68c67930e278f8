"""Bodies of NAT's HTTP routes: its data models.

They have NAT's names and fields, because both their errors and their text go on the wire.
Source: ``nat.data_models``: ``api_server``, ``interactive_http``; nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    create_model,
    model_validator,
)

_NO_CONTENT = "content may be null only for assistant messages with tool_calls or function_call"


class UserMessageContentRoleType(StrEnum):
    """Who said a message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


class ChatContentType(StrEnum):
    """What a part of a message is."""

    TEXT = "text"
    IMAGE_URL = "image_url"
    INPUT_AUDIO = "input_audio"


class InputAudio(BaseModel):
    """Sound in a message."""

    data: str = "default"
    format: str = "default"


class AudioContent(BaseModel):
    """A part that is sound."""

    model_config = ConfigDict(extra="forbid")
    type: Literal[ChatContentType.INPUT_AUDIO] = ChatContentType.INPUT_AUDIO
    input_audio: InputAudio = InputAudio()


class ImageUrl(BaseModel):
    """Where an image is."""

    url: str = "http://default.com"


class ImageContent(BaseModel):
    """A part that is an image."""

    model_config = ConfigDict(extra="forbid")
    type: Literal[ChatContentType.IMAGE_URL] = ChatContentType.IMAGE_URL
    image_url: ImageUrl = ImageUrl()


class TextContent(BaseModel):
    """A part that is text."""

    model_config = ConfigDict(extra="forbid")
    type: Literal[ChatContentType.TEXT] = ChatContentType.TEXT
    text: str = "default"


Content = Annotated[TextContent | ImageContent | AudioContent, Discriminator("type")]


class Message(BaseModel):
    """One message of a chat."""

    model_config = ConfigDict(extra="allow")
    content: str | list[Content] | None
    role: UserMessageContentRoleType
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _said_something(self) -> Self:
        called = self.tool_calls or (self.model_extra or {}).get("function_call")
        if self.content is None and not (self.role == "assistant" and called):
            raise ValueError(_NO_CONTENT)
        return self


class ChatRequest(BaseModel):
    """A chat request in OpenAI's form; the workflow sees only its messages."""

    model_config = ConfigDict(extra="allow")
    messages: list[Message]
    model: str | None = None
    frequency_penalty: float | None = 0.0
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    max_tokens: int | None = None
    n: int | None = 1
    presence_penalty: float | None = 0.0
    response_format: dict[str, Any] | None = None
    seed: int | None = None
    service_tier: Literal["auto", "default"] | None = None
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    temperature: float | None = 1.0
    top_p: float | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = True
    user: str | None = None


class AgentFields(BaseModel):
    """What an agent can be asked: messages and any options, or ``input_message``."""

    model_config = ConfigDict(extra="allow")
    messages: list[Message] | None = None
    input_message: str | None = None


class ChatRequestOrMessage(AgentFields):
    """The workflow schema of an agent: one of the two ways, ``input_message`` alone."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.messages is not None and self.input_message is not None:
            raise ValueError("Either messages or input_message must be provided, not both")
        if self.messages is None and self.input_message is None:
            raise ValueError("Either messages or input_message must be provided")
        if self.input_message is not None and self.model_dump(
            exclude={"input_message"}, exclude_none=True, exclude_unset=True
        ):
            raise ValueError("no extra fields are permitted when input_message is provided")
        return self


class BinaryHumanPromptOption(BaseModel):
    """The chosen one of two."""

    id: str = "default"
    label: str = "default"
    value: Any = "default"


class MultipleChoiceOption(BaseModel):
    """The chosen one of many."""

    id: str = "default"
    label: str = "default"
    value: str = "default"
    description: str = "default"


class HumanPromptModelType(StrEnum):
    """The kinds of prompts."""

    TEXT = "text"
    NOTIFICATION = "notification"
    BINARY_CHOICE = "binary_choice"
    RADIO = "radio"
    CHECKBOX = "checkbox"
    DROPDOWN = "dropdown"


class HumanResponseText(BaseModel):
    """A text."""

    type: Literal[HumanPromptModelType.TEXT] = HumanPromptModelType.TEXT
    text: str


class HumanResponseNotification(BaseModel):
    """Nothing to say."""

    type: Literal[HumanPromptModelType.NOTIFICATION] = HumanPromptModelType.NOTIFICATION
    text: str = "Notification acknowledgement."


class HumanResponseBinary(BaseModel):
    """One of two."""

    type: Literal[HumanPromptModelType.BINARY_CHOICE] = HumanPromptModelType.BINARY_CHOICE
    selected_option: BinaryHumanPromptOption


class HumanResponseRadio(BaseModel):
    """One of many."""

    type: Literal[HumanPromptModelType.RADIO] = HumanPromptModelType.RADIO
    selected_option: MultipleChoiceOption


class HumanResponseCheckbox(BaseModel):
    """One of many: the server takes no list."""

    type: Literal[HumanPromptModelType.CHECKBOX] = HumanPromptModelType.CHECKBOX
    selected_option: MultipleChoiceOption


class HumanResponseDropdown(BaseModel):
    """One of many."""

    type: Literal[HumanPromptModelType.DROPDOWN] = HumanPromptModelType.DROPDOWN
    selected_option: MultipleChoiceOption


class InteractionResponseRequest(BaseModel):
    """The human's answer to a prompt; ``type`` tells its kind."""

    response: Annotated[
        HumanResponseText
        | HumanResponseBinary
        | HumanResponseNotification
        | HumanResponseRadio
        | HumanResponseCheckbox
        | HumanResponseDropdown,
        Discriminator("type"),
    ]

    @property
    def value(self) -> str:
        """What the workflow gets to see: the text, or the value of the option."""
        said = self.response
        if isinstance(said, HumanResponseText | HumanResponseNotification):
            return said.text
        return str(said.selected_option.value)


class _JobFields(BaseModel):
    job_id: str | None = None
    sync_timeout: Annotated[int, Field(ge=0, le=300)] = 0
    expiry_seconds: Annotated[int, Field(ge=600, le=86_400)] = 3_600


class AsyncGenerateRequest(AgentFields, _JobFields):
    """The fields of an agent, of which here, as on the server, none is needed, and of a job."""


def workflow_schema(parameter: str | None) -> type[BaseModel]:
    """The body of the workflow routes: an agent's, or that of a function of one text, named
    ``parameter``.
    """
    if parameter is None:
        return ChatRequestOrMessage
    fields: dict[str, Any] = {parameter: (str, ...)}
    return create_model("InputArgsSchema", **fields)


def job_schema(parameter: str | None) -> type[BaseModel]:
    """The body of the async route."""
    if parameter is None:
        return AsyncGenerateRequest
    fields: dict[str, Any] = {parameter: (str, ...)}
    return create_model("AsyncGenerateRequest", __base__=_JobFields, **fields)
