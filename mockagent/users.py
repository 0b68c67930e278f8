"""Who has a workflow here: all callers the same one, or (``--per-user``) each user one of his own.

With workflows of their own users have slots of their own, callers without identity have none, and
``/monitor/users`` tells how they are used.  Source: ``nat.runtime``: ``session``, ``metrics``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from loadgen.clock import NS_PER_MS, NS_PER_S, now_ns, wall_ns
from mockagent.identity import IdentityError
from mockagent.slots import Slots

_NOBODY = (
    "user_id is required for per-user workflow but could not be determined. "
    "Include a standard Bearer JWT token in the Authorization header "
    "(e.g. 'Authorization: Bearer <token>'), or construct a UserInfo instance "
    "and pass UserInfo.get_user_id() as the user_id parameter."
)


class Session:
    """One use of a workflow; set ``failed`` when its run fails."""

    __slots__ = ("failed", "slots")

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.failed = False


class _Workflow:
    """A user's own workflow, and how it was used."""

    def __init__(self, slots: int) -> None:
        self.slots = Slots(slots)
        self.created_ns = self.active_ns = wall_ns()
        self.running = self.requests = self.errors = self.latency_ns = 0

    def usage(self, user: str) -> dict[str, Any]:
        """As ``/monitor/users`` shows it."""
        mean_ms = self.latency_ns / self.requests / NS_PER_MS if self.requests else 0.0
        return {
            "user_id": user,
            "session": {
                "created_at": local_time(self.created_ns),
                "last_activity": local_time(self.active_ns),
                "ref_count": self.running,
                "is_active": self.running > 0,
            },
            "requests": {
                "total_requests": self.requests,
                "active_requests": self.running,
                "avg_latency_ms": round(mean_ms, 2),
                "error_count": self.errors,
            },
            "memory": {
                "per_user_functions_count": 0,
                "per_user_function_groups_count": 0,
                "exit_stack_size": 1,
            },
        }


class Users:
    """The workflows of one server; ``slots`` for each, 0 is no cap."""

    def __init__(self, slots: int, per_user: bool) -> None:
        self.shared = Slots(slots)
        self._slots = slots
        self._own: dict[str, _Workflow] | None = {} if per_user else None

    def admit(self, user: str | None) -> None:
        """Make sure that there is a workflow for ``user``.

        Raises:
            IdentityError: there is none without identity.
        """
        if self._own is not None and user is None:
            raise IdentityError(_NOBODY)

    @contextmanager
    def session(self, user: str | None) -> Iterator[Session]:
        """Use the workflow of ``user``.

        Raises:
            IdentityError: there is none without identity.
        """
        self.admit(user)
        if self._own is None or user is None:
            yield Session(self.shared)
            return
        workflow = self._own.get(user) or self._own.setdefault(user, _Workflow(self._slots))
        session = Session(workflow.slots)
        begin_ns = now_ns()
        workflow.running += 1
        try:
            yield session
        except Exception:
            session.failed = True
            raise
        finally:
            workflow.running -= 1
            workflow.requests += 1
            workflow.errors += session.failed
            workflow.latency_ns += now_ns() - begin_ns
            workflow.active_ns = wall_ns()

    def usage(self, user: str | None) -> dict[str, Any]:
        """The answer of ``/monitor/users``: all users, or one."""
        own = self._own or {}
        users = [flow.usage(name) for name, flow in own.items() if user in (None, name)]
        return {
            "timestamp": local_time(wall_ns()),
            "total_active_users": len(users),
            "users": users,
        }

    def slots(self) -> dict[str, int]:
        """Slots of each workflow, and how many are held and waited for in all."""
        all_slots = [self.shared, *(flow.slots for flow in (self._own or {}).values())]
        return {
            "total": self._slots,
            "held": sum(slots.held for slots in all_slots),
            "waiting": sum(slots.waiting for slots in all_slots),
        }


def local_time(wall: int) -> str:
    """``wall`` (ns since the epoch) as NAT's JSON has it where it takes the host's own time for
    granted: no zone.
    """
    return datetime.fromtimestamp(wall / NS_PER_S, UTC).replace(tzinfo=None).isoformat()
