"""What the WebSocket says outside of turns: to logins, to questions that never become a turn, and,
in the documented edition, to messages that the server ignores.
"""

from __future__ import annotations

from loadgen.clock import wall_ns
from mockagent.edition import Edition
from mockagent.frames import Timestamp, WsFrames, json_text
from mockagent.identity import IdentityError
from mockagent.ws_schema import Misfit


def auth_answer(clock: Timestamp, user: str | None, refusal: str | None) -> str:
    """The answer to a login: the user it stands for, or why it does not."""
    trouble = {"code": "user_auth_error", "message": "Authentication failed", "details": refusal}
    answer = {
        "type": "auth_response_message",
        "status": "success" if user else "error",
        "user_id": user,
        "payload": None if user else trouble,
        "timestamp": clock.text(wall_ns()),
    }
    return json_text(answer)


def refusal_of(error: IdentityError, method: str, edition: Edition) -> str:
    """Why a login failed, in the words of the edition."""
    if edition.documented:
        return f"Could not resolve user identity from auth payload (method={method})"
    return str(error)


def unusable(frames: WsFrames) -> str:
    """The answer to a ``generate`` question without any text of a user; no closing message."""
    return frames.error(
        "invalid_user_message_content",
        "User message content could not be found",
        "No user text content found in messages.",
        wall_ns(),
    )


def unauthenticated(frames: WsFrames) -> tuple[str, str]:
    """A refusal that only this mock gives (``--require-auth``)."""
    details = "no identity on the connection and no auth_message before the user_message"
    error = frames.error("user_auth_error", "Authentication required", details, wall_ns())
    return error, frames.complete(wall_ns(), failed=True)


def nobody(frames: WsFrames, error: IdentityError) -> tuple[str, str]:
    """A question of somebody without a workflow."""
    failed = frames.error("workflow_error", error.kind, str(error), wall_ns())
    return failed, frames.complete(wall_ns(), failed=True)


def misfit(clock: Timestamp, why: Misfit) -> str:
    """The documented answer to a message that does not fit; the server keeps silent."""
    frames = WsFrames("default", None, clock, Edition.DOCUMENTED)
    return frames.error(why.value, "Error validating message.", why.value, wall_ns())
