"""The components that the toolkit finds: the scripted workflow and the retriever it may call.

Only what the workflow does is ours: routes, framing, prompts, sockets and limits are the toolkit's.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from nat.builder.builder import Builder
from nat.builder.context import Context, ContextState
from nat.builder.function_info import FunctionInfo
from nat.cli.register_workflow import register_function, register_per_user_function
from nat.data_models.api_server import ChatRequestOrMessage, ChatResponseChunk
from nat.data_models.component_ref import AuthenticationRef, FunctionRef
from nat.data_models.function import FunctionBaseConfig
from nat.data_models.intermediate_step import IntermediateStepPayload, StreamEventData
from nat.data_models.intermediate_step import IntermediateStepType as StepType

from scripted_analyst import prompts
from scripted_analyst.script import Script

ODD = (
    "<odd> caf\u00e9 \u6f22\u5b57 \U0001f600 a\u2028b\u2029c\u0085d\x0be\x0cf\r\n\n"
    "data: [DONE]\n\nevent: error\n </odd> "
)
"""What ``str.splitlines`` takes for line ends and SSE does not, look-alikes of terminators, text
outside ASCII and outside the basic plane."""

_STEP_TYPES = {
    "tool": (StepType.TOOL_START, StepType.TOOL_END),
    "llm": (StepType.LLM_START, StepType.LLM_END),
    "custom": (StepType.CUSTOM_START, StepType.CUSTOM_END),
}


class ScriptedFailure(RuntimeError):
    """The script says that the run fails here."""


class RetrieverConfig(FunctionBaseConfig, name="scripted_retriever"):
    """A function that takes its time and returns padding."""


class AnalystConfig(FunctionBaseConfig, name="scripted_analyst"):
    """A workflow that does what the question says; ``oauth=1`` needs the ``auth_provider``."""

    retriever: FunctionRef
    auth_provider: AuthenticationRef | None = None


class OwnAnalystConfig(AnalystConfig, name="scripted_analyst_per_user"):
    """The same, one instance for each user."""


@register_function(config_type=RetrieverConfig)
async def scripted_retriever(config: RetrieverConfig, builder: Builder):

    async def retrieve(query: str) -> str:
        script = Script.of(query)
        await _work(script)
        return _document(script)

    yield FunctionInfo.from_fn(retrieve, description="Returns a made-up document after a while.")


@register_function(config_type=AnalystConfig)
async def scripted_analyst(config: AnalystConfig, builder: Builder):
    yield await _analyst(config, builder)


@register_per_user_function(
    config_type=OwnAnalystConfig,
    input_type=ChatRequestOrMessage,
    single_output_type=str,
    streaming_output_type=ChatResponseChunk,
)
async def scripted_analyst_per_user(config: OwnAnalystConfig, builder: Builder):
    yield await _analyst(config, builder)


async def _analyst(config: AnalystConfig, builder: Builder) -> FunctionInfo:
    retriever = await builder.get_function(config.retriever)

    async def log_in() -> None:
        if config.auth_provider is None:
            raise ScriptedFailure("no auth_provider in the configuration")
        provider = await builder.get_auth_provider(config.auth_provider)
        await provider.authenticate()

    async def whole(request: ChatRequestOrMessage) -> str:
        return "".join([part async for part in _turn(_question(request), retriever, log_in)])

    async def streamed(request: ChatRequestOrMessage) -> AsyncGenerator[ChatResponseChunk]:
        async for part in _turn(_question(request), retriever, log_in):
            yield ChatResponseChunk.create_streaming_chunk(part)

    return FunctionInfo.create(
        single_fn=whole, stream_fn=streamed, description="Does what the question says."
    )


async def _turn(
    question: str, retriever: Any, log_in: Callable[[], Awaitable[None]]
) -> AsyncGenerator[str]:
    """The answer to ``question``, piece by piece."""
    script = Script.of(question)
    if script.trace:
        ContextState.get().observability_trace_id.set(str(uuid.uuid4()))
    _fail(script, "start")
    async for said in _ask(script, "start"):
        yield said
    if script.oauth:
        await log_in()
        yield "[oauth ok] "
    for number in range(script.steps):
        await _step(number, script, retriever)
        _fail(script, "steps")
    async for said in _ask(script, "answer"):
        yield said
    _fail(script, "answer")
    await asyncio.sleep(script.think_ms / 1000)
    async for piece in _answer(question, script):
        yield piece
    async for said in _ask(script, "end"):
        yield said
    _fail(script, "end")
    yield f"tag={script.tag}" if script.tag else "end"


async def _step(number: int, script: Script, retriever: Any) -> None:
    """One retrieval, shown as the script says."""
    if script.step_kind == "none":
        await _work(script)
    elif script.step_kind == "function":
        await retriever.ainvoke(
            f"{number} step_ms={script.step_ms} block_ms={script.block_ms} step_kb={script.step_kb}"
        )
    else:
        start, end = _STEP_TYPES.get(script.step_kind, _STEP_TYPES["tool"])
        query = f"query {number}"
        step = _Step("search")
        step.show(start, input=query)
        await _work(script)
        step.show(end, input=query, output=_document(script))


async def _answer(question: str, script: Script) -> AsyncGenerator[str]:
    """The chunks, and with ``llm`` the steps of a model that streams them."""
    model = _Step("sim-model") if script.llm else None
    written = ""
    if model:
        model.show(StepType.LLM_START, input=question)
    for number in range(script.tokens):
        if number == script.fail_after:
            raise ScriptedFailure(f"scripted failure after {number} chunks")
        if number == script.tokens // 2:
            await asyncio.sleep(script.hang_ms / 1000)
            _fail(script, "mid")
            async for said in _ask(script, "mid"):
                yield said
        await asyncio.sleep(script.token_ms / 1000)
        chunk = f"w{number}".ljust(script.token_len, "x") + " "
        written += chunk
        if model:
            model.show(StepType.LLM_NEW_TOKEN, input=question, chunk=chunk)
        yield chunk
    if script.odd:
        yield ODD
    if model:
        model.show(StepType.LLM_END, input=question, output=written)


async def _ask(script: Script, where: str) -> AsyncGenerator[str]:
    """Ask the human if the script says so here; what was replied becomes part of the answer."""
    if not script.hitl or script.hitl_at != where:
        return
    replies = []
    for kind in script.hitl.split(","):
        try:
            prompt = prompts.prompt(kind, script.hitl_timeout or None)
        except KeyError:
            raise ScriptedFailure(f"unknown hitl kind {kind!r}") from None
        try:
            reply = await Context.get().user_interaction_manager.prompt_user_input(prompt)
        except TimeoutError:
            if not script.hitl_catch:
                raise
            replies.append(f"{kind}:TIMEOUT")
        else:
            replies.append(f"{kind}:{prompts.said(reply)}")
    yield f"[hitl {' '.join(replies)}] "


class _Step:
    """A step of the run.  All its events go through one manager, which `Context` makes anew at each
    access and which pairs ends with their starts.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._id = str(uuid.uuid4())
        self._manager = Context.get().intermediate_step_manager

    def show(self, kind: StepType, **data: str) -> None:
        """Let an event of the step go out."""
        payload = IntermediateStepPayload(
            UUID=self._id, event_type=kind, name=self._name, data=StreamEventData(**data)
        )
        self._manager.push_intermediate_step(payload)


def _fail(script: Script, where: str) -> None:
    if script.fail == where:
        raise ScriptedFailure(f"scripted failure at {where}")


async def _work(script: Script) -> None:
    if script.block_ms > 0:
        time.sleep(script.block_ms / 1000)
    if script.step_ms > 0:
        await asyncio.sleep(script.step_ms / 1000)


def _document(script: Script) -> str:
    return "document" + "." * int(script.step_kb * 1024)


def _question(request: ChatRequestOrMessage) -> str:
    """The last message's text."""
    if request.input_message is not None:
        return request.input_message
    content = request.messages[-1].content
    if isinstance(content, str):
        return content
    return " ".join(getattr(part, "text", "") for part in content or [])
