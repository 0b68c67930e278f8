"""``GET /executions/{id}`` and the answer to a prompt."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from mockagent.answers import answer_empty, answer_json
from mockagent.bodies import Invalid, read_json, validated
from mockagent.edition import Edition
from mockagent.executions import Executions, Resolved, Unknown
from mockagent.requests import InteractionResponseRequest


class ExecutionRoutes:
    """The routes over the store of executions."""

    def __init__(self, executions: Executions, edition: Edition) -> None:
        self._executions = executions
        self._edition = edition

    async def status(self, request: Request) -> Response:
        """The status of an execution."""
        try:
            return answer_json(self._executions.status(request.path_params["execution_id"]))
        except Unknown as unknown:
            return answer_json({"detail": str(unknown)}, 404)

    async def respond(self, request: Request) -> Response:
        """Take the human's answer; 204 without a body."""
        where = request.path_params
        try:
            content_type = request.headers.get("content-type", "")
            content = read_json(await request.body(), content_type)
            if self._edition.documented:
                content = _undocumented(content)
            said = validated(InteractionResponseRequest, content)
            self._executions.answer(where["execution_id"], where["interaction_id"], said.value)
        except Invalid as invalid:
            return answer_json({"detail": invalid.detail}, 422)
        except Unknown as unknown:
            return answer_json({"detail": str(unknown)}, 404)
        except Resolved as resolved:
            return answer_json({"detail": str(resolved)}, 400)
        return answer_empty()


def _undocumented(content: Any) -> Any:
    """A body as the documents show it, in the fields that the server knows: they call the kind
    ``input_type``, and give a list of ``selected_options``, of which the first counts.
    """
    response = content.get("response") if isinstance(content, dict) else None
    if not isinstance(response, dict):
        return content
    translated = dict(response)
    if "input_type" in translated:
        translated.setdefault("type", translated.pop("input_type"))
    options = translated.pop("selected_options", None)
    if isinstance(options, list) and options:
        translated.setdefault("selected_option", options[0])
    return content | {"response": translated}
