"""What NAT's dialects share: steps, prompts, error objects and JSON.

NAT is the NVIDIA NeMo Agent Toolkit; the facts are of release 1.9.0 as it behaves on the wire, the
published schema is accepted beside it.

Steps (default adaptor): the first is always ``Function Start: <workflow>`` at ``root``, sent when
the run gets a slot, the last ``Function Complete: <workflow>`` with the same id.  Neither is work:
they become `Started` and a `Notice`.  Others are progress, named ``Function Start: X``,
``Function Complete: X``, ``Tool: X``, ``CUSTOM_*``, or the bare name of a model.

Raw steps (``/full`` routes, no adaptor) are told by their type.  There the workflow announces
itself twice: ``WORKFLOW_START`` at ``root``, and right below it the ``FUNCTION_START`` of its entry
function, called ``<workflow>`` or like the workflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from loadgen.clock import NS_PER_S
from loadgen.dialects.refusal import brief, shown
from loadgen.events import Event, Failed, Notice, Option, Progress, Prompt, PromptKind, Started
from loadgen.turn import Cause, Outcome

Json = dict[str, Any]

_STALE = Notice("stale")
_ECHO = Notice("echo")

_LARGE = 4096
_LONGEST_TIMEOUT_S = 10**9
_PAYLOAD = '"payload":"'
_WORKFLOW = "<workflow>"
_RAW_KINDS = {"LLM": "llm", "TOOL": "tool", "FUNCTION": "function", "WORKFLOW": "function"}


def undecodable(text: str) -> Notice:
    """A frame that is no JSON of a known shape; counted, with a sample."""
    return Notice("undecodable", brief(text))


def parse(text: str) -> Json | None:
    """``text`` as a JSON object; None when it is anything else."""
    try:
        value = orjson.loads(text)
    except ValueError:
        return None
    return value if type(value) is dict else None


def parse_step(text: str, closing: str) -> Json | None:
    """A step as `parse` gives it, but without the payload of a large one.

    A payload can be hundreds of KiB (an LLM step repeats all text so far with every token) and
    nothing reads it.  The server writes it as the last member of its object, so the text before it
    with ``closing`` brackets is JSON by itself; the mark cannot stand inside a string, where its
    quotes would be escaped.  When what that gives is not a whole step, the whole text is parsed.
    """
    if len(text) > _LARGE and (cut := text.find(_PAYLOAD)) > 0:
        step = parse(f'{text[:cut]}"payload":""{closing}')
        if step is not None and "id" in step and "parent_id" in step:
            named = step.get("content", step)
            if type(named) is dict and "name" in named:
                return step
    return parse(text)


class Steps:
    """The steps of one turn after another: which is the synthetic first one, which is its echo, and
    which belong to a turn that is over.

    A step does not say its turn, but its ``parent_id`` is the id of the function around it: what
    hangs below a function of the previous turn is stale.
    """

    __slots__ = ("_own", "_past", "_root", "_turn")

    def __init__(self) -> None:
        self._turn = ""
        self._root: str | None = None
        self._own: set[str] = set()
        self._past: set[str] = set()

    def begin(self, turn: str) -> None:
        """A turn begins; ids seen before belong to another."""
        if turn == self._turn:
            return
        self._past = self._own
        if self._turn:
            self._past.add(self._turn)
        self._own = set()
        self._turn = turn
        self._root = None

    def event(self, step: Json, name: Any) -> Event:
        """What the step called ``name`` means."""
        step_id, parent = step.get("id"), step.get("parent_id") or "root"
        if type(name) is not str or type(step_id) is not str or type(parent) is not str:
            return undecodable(f"step without name or ids: {shown(name)}")
        if parent in self._past or step_id in self._past:
            self._past.add(step_id)
            return _STALE
        head, colon, rest = name.partition(": ")
        if colon:
            if head == "Tool":
                return Progress("tool", rest)
            if head == "Function Start":
                return self._function_start(step_id, parent, rest)
            if head == "Function Complete":
                return self._function_complete(step_id, parent, rest)
        # A model's name has no blanks; the published schema's step names have.
        kind = "step" if " " in name or name.startswith("CUSTOM_") or not name else "llm"
        return Progress(kind, name)

    def _function_start(self, step_id: str, parent: str, name: str) -> Event:
        self._own.add(step_id)
        # The published schema puts the turn's id where the server puts "root".
        if self._root is None and parent in ("root", self._turn):
            self._root = step_id
            return Started(name)
        return Progress("function", name)

    def _function_complete(self, step_id: str, parent: str, name: str) -> Event:
        # On a resumed socket the start went to the old one: only the place tells the echo.
        if step_id == self._root or (self._root is None and parent == "root"):
            return _ECHO
        # An abandoned run may put its closing step into whatever stream the server then writes.
        if self._root is not None and step_id not in self._own:
            return _STALE
        return Progress("function", name)


class RawSteps:
    """The raw steps of one turn: which are the workflow's own.

    The route may filter types away, so neither of the two announcements is sure to come.
    """

    __slots__ = ("_name", "_own", "_root", "_started")

    def __init__(self) -> None:
        self._own: set[str] = set()
        self._root: str | None = None
        self._name = _WORKFLOW
        self._started = False

    def event(self, step: Json) -> Event:
        """What the step means.  The end of a model call or a tool is work, and ends nothing."""
        kind, name = step.get("type"), step.get("name")
        step_id, parent = step.get("id"), step.get("parent_id") or "root"
        if (
            type(kind) is not str
            or type(name) is not str
            or type(step_id) is not str
            or type(parent) is not str
        ):
            return undecodable(f"step without type, name or ids: {shown(kind)} {shown(name)}")
        family = kind.partition("_")[0]
        if not self._is_own(family, step_id, parent, name):
            return Progress(_RAW_KINDS.get(family, "step"), name)
        self._own.add(step_id)
        if kind == "WORKFLOW_START":
            self._root, self._name = step_id, name
        if self._started or not kind.endswith("_START"):
            return _ECHO
        self._started = True
        return Started(name)

    def _is_own(self, family: str, step_id: str, parent: str, name: str) -> bool:
        if step_id in self._own:
            return True
        if family == "WORKFLOW":
            return parent == "root"
        if family != "FUNCTION":
            return False
        if self._root is None:
            return parent == "root" or name == _WORKFLOW
        return parent == self._root and name in (_WORKFLOW, self._name)


def prompt(content: Any, key: str, execution: str | None = None) -> Prompt | Failed:
    """A prompt object as an event; ``timeout`` is in seconds on the wire.

    `Failed` when nobody can answer it: a kind that NAT does not have.  The text of an OAuth consent
    is the URL to open.
    """
    if type(content) is not dict:
        return Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, "prompt without content")
    kind = content.get("input_type")
    if kind == PromptKind.OAUTH_CONSENT.value:
        return consent(content.get("text"), execution)
    if type(kind) is not str or kind not in _KINDS:
        detail = f"prompt of unknown kind {shown(kind)}"
        return Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, detail)
    timeout, options = content.get("timeout"), content.get("options")
    timed = isinstance(timeout, int | float) and 0 <= timeout <= _LONGEST_TIMEOUT_S
    return Prompt(
        kind=_KINDS[kind],
        key=key,
        text=text_of(content.get("text")),
        options=tuple(
            Option(text_of(o.get("id")), text_of(o.get("label")), text_of(o.get("value")))
            for o in (options if type(options) is list else ())
            if type(o) is dict
        ),
        timeout_ns=int(timeout * NS_PER_S) if timeout and timed else None,
        execution=execution,
    )


def consent(url: Any, execution: str | None = None) -> Prompt | Failed:
    """The demand to log in elsewhere, at ``url``, before the run goes on."""
    if type(url) is not str or not url:
        detail = f"oauth consent without a URL: {shown(url)}"
        return Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, detail)
    return Prompt(PromptKind.OAUTH_CONSENT, url, execution=execution)


_KINDS: Mapping[str, PromptKind] = {kind.value: kind for kind in PromptKind}


def is_error(value: Json) -> bool:
    """Whether a bare object is NAT's ``{code, message, details}``."""
    return "code" in value and "message" in value


def error_text(error: Any) -> str:
    """An error object as ``code: message (details)``; NAT and OpenAI shapes, or plain text."""
    if type(error) is not dict:
        return brief(text_of(error)) or "error without text"
    code = error.get("code") or error.get("type")
    text = text_of(error.get("message")) or "error without text"
    if code:
        text = f"{text_of(code)}: {text}"
    if details := error.get("details"):
        text = f"{text} ({text_of(details)})"
    return brief(text)


def text_of(value: Any) -> str:
    """A JSON value as text: a string as it is, null as nothing, else as JSON.

    What was read may nest deeper than can be written.
    """
    if type(value) is str:
        return value
    try:
        return "" if value is None else orjson.dumps(value).decode()
    except TypeError:
        return "(nested too deep)"
