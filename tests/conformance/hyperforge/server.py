"""The real Hyperforge server with scripted agents in the place of a model's; `serve` installs and
starts it.

Routes, validation, sessions, broker, frames and closes are Hyperforge's own.  Ours are the agents
and the routes for ephemeral tokens, which in production belong to the gateway before it: they give
a token to everybody, and nobody looks at it.
"""

from __future__ import annotations

import argparse
import base64
import os
import uuid
from pathlib import Path
from unittest.mock import patch

# Before Hyperforge is imported: it would ask a server on the internet for feature flags.
os.environ["FLAG_SETTINGS_URL"] = "null"
os.environ["DO_NOT_TRACK"] = "1"
# Of this process only: the state that a login takes along is encrypted with it.
os.environ["ENCRYPTION_SECRET_KEY"] = base64.urlsafe_b64encode(os.urandom(32)).decode()

import uvicorn
from agent import Searcher, Writer
from fastapi import Request
from fastapi.responses import JSONResponse
from hyperforge.engine import State
from hyperforge.retrieval.agent import RetrievalAgent
from hyperforge.standalone.app import StandaloneApplication
from hyperforge.standalone.config import StandaloneConfig
from hyperforge.standalone.settings import StandaloneSettings

AGENT = "agent-0001"
WORKFLOWS = ("default", "ask")
TOKENS = (
    "/api/v1/account/{account}/kb/{agent}/ephemeral_tokens",
    "/api/v1/agent/{agent}/ephemeral_token",
    "/api/v1/ephemeral_token",
)


class NoModels:
    """Stands where the manager of language models would."""

    async def aclose(self) -> None:
        """Called at the end of each turn."""


async def state(*_: object, **__: object) -> State:
    """The agents of a turn; Hyperforge would build it from its configuration."""
    agent = RetrievalAgent(context=[Searcher()], generation=[Writer()])
    return State(manager=NoModels(), agent=agent)


async def token(request: Request) -> JSONResponse:
    """An ephemeral token."""
    await request.body()
    return JSONResponse({"token": f"eph-{uuid.uuid4().hex}"})


def application() -> StandaloneApplication:
    """Hyperforge's own application, without its administration pages."""
    workflows = {name: {"name": name} for name in WORKFLOWS}
    agents = StandaloneConfig.validate_python(
        {AGENT: {"title": "Scripted", "workflows": workflows}}
    )
    nowhere = Path(os.devnull)
    settings = StandaloneSettings(
        _env_file=None,
        agents_config=nowhere,
        external_nua_api_key="none",
        log_level="ERROR",
        static_folder=str(nowhere),
    )
    made = StandaloneApplication(agents, settings)
    for path in TOKENS:
        made.router.add_api_route(path, token, methods=["POST"])
    return made


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition(";")[0])
    parser.add_argument("--port", type=int, default=8100)
    port = parser.parse_args().port
    os.environ["CONFORMANCE_ORIGIN"] = f"http://127.0.0.1:{port}"
    with patch("hyperforge.server.session.get_state", state):
        uvicorn.run(
            application(), host="127.0.0.1", port=port, access_log=False, log_level="warning"
        )


if __name__ == "__main__":
    main()
