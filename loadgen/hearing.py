"""What the agent says, event by event, and what the human at a prompt does about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loadgen.commands import (
    Drop,
    Errand,
    Hold,
    Post,
    Send,
    Visit,
    Wait,
)
from loadgen.dialects.contract import (
    Reply,
)
from loadgen.errors import GeneratorError
from loadgen.events import (
    Answer,
    Completed,
    Failed,
    Login,
    Lost,
    Notice,
    Opened,
    Pending,
    Progress,
    Prompt,
    PromptKind,
    Rejected,
    Reviewed,
    Say,
    Started,
)
from loadgen.line import Line
from loadgen.openturn import OpenTurn
from loadgen.persona import ReplyPlan
from loadgen.phase import LISTENING, Phase
from loadgen.turn import Cause, Milestone, Outcome

# Module globals: an attribute of the enum costs several times as much, at every event.
_WAITING, _WORKING, _RESUMING = Phase.WAITING, Phase.WORKING, Phase.RESUMING


class Hearing(Line):
    """A dialogue that listens."""

    def _listening(self, at_ns: int) -> OpenTurn | None:
        """The turn, which showed a sign of life; None when none is listening: a stray event."""
        turn, phase = self._turn, self.phase
        if turn is None or not (phase is _WORKING or phase in LISTENING):
            if turn is None or not turn.quitting:
                self._strays += 1
            return None
        turn.hear(at_ns)
        if phase is _WAITING or phase is _RESUMING:
            self._attempt = 0
            self._enter(_WORKING, at_ns)
            if phase is _WAITING and turn.absence.looks_away_ns:
                self._look_away(turn, at_ns)
        return turn

    def _look_away(self, turn: OpenTurn, at_ns: int) -> None:
        """The analyst reads nothing for a while; that silence is not the agent's."""
        turn.note("looked_away")
        turn.last_event_ns = at_ns + turn.absence.looks_away_ns
        self._commands.append(Hold(turn.absence.looks_away_ns))

    def _on_opened(self, event: Opened, at_ns: int) -> None:
        if self._turn is not None and self.phase is Phase.CONNECTING:
            self._opened(self._turn, at_ns)

    def _on_login(self, event: Login, at_ns: int) -> None:
        turn = self._turn
        if turn is None or self.phase is not Phase.LOGGING_IN:
            self._strays += 1
        elif not event.ok:
            self._no_connection(turn, at_ns, Cause.AUTH_REJECTED, event.detail)
        else:
            if turn.connection is not None:
                turn.connection.authenticated_ns = at_ns
            if not turn.asked_ns:
                turn.record.timeline.mark(Milestone.AUTHENTICATED, at_ns)
            self._usable(turn, at_ns)

    def _on_started(self, event: Started, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is not None:
            turn.first_step(at_ns)

    def _on_progress(self, event: Progress, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is not None:
            turn.progress(event.kind, at_ns)
            if event.work is not None:
                turn.add_work(event.work)

    def _on_answer(self, event: Answer, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is not None:
            turn.chunk(event.text, at_ns)
            if turn.record.chunks == turn.leaves_at:
                self._set_out(turn, at_ns)

    def _set_out(self, turn: OpenTurn, at_ns: int) -> None:
        """The analyst has read enough: it leaves, at once or a little later."""
        turn.leaves_at = 0
        read_ns = at_ns - turn.started_ns - turn.paused_until_ns(at_ns)
        leaves_ns = read_ns + turn.absence.leaves_after_ns
        turn.patience_ns = min(leaves_ns, turn.patience_ns or leaves_ns)
        due = self.due_ns()
        if due is not None:
            self._commands.append(Wait(due))

    def _on_prompt(self, event: Prompt, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is None:
            return
        if event.kind is PromptKind.NOTIFICATION:
            turn.notify(at_ns)
            return
        deliveries = turn.ask_human(event, at_ns)
        if event.kind is PromptKind.OAUTH_CONSENT:
            self._wants_consent(turn, at_ns)
            return
        turn.reply_plan = plan = self._habits.reply(event, deliveries)
        if event.timeout_ns is not None:
            turn.expiry_ns = at_ns + event.timeout_ns
        if plan.delay_ns is None and plan.drop_after_ns is None:
            turn.note("prompt_ignored")
            turn.ignores = True
            self._go_on(turn, at_ns)
        else:
            self._enter(Phase.HUMAN, at_ns)

    def _wants_consent(self, turn: OpenTurn, at_ns: int) -> None:
        plan = self._habits.consent()
        if plan.do == "fail":
            words = "oauth consent wanted, which these analysts do not give"
            self._finish(turn, at_ns, Outcome.FAILED, Cause.AUTH_REJECTED, words)
        elif plan.do == "skip":
            turn.note("consent_skipped")
            turn.ignores = True
            self._go_on(turn, at_ns)
        else:
            turn.reply_plan = ReplyPlan(plan.delay_ns, plan.do)
            self._enter(Phase.HUMAN, at_ns)

    def _go_on(self, turn: OpenTurn, at_ns: int) -> None:
        """The analyst holds nothing up: wait for the agent."""
        turn.last_event_ns = max(turn.last_event_ns, at_ns)
        if turn.poll_key:
            self._poll_later(turn, at_ns)
        else:
            self._enter(Phase.WORKING, at_ns)

    def _on_say(self, event: Say, at_ns: int) -> None:
        if self._listening(at_ns) is not None and self._is_socket:
            self._commands.append(Send(event.message))

    def _on_rejected(self, event: Rejected, at_ns: int) -> None:
        """A message of ours was not taken: that explains a turn that then breaks, no other."""
        turn = self._turn
        if turn is not None and turn.quitting:
            self._quitted(turn, "refused", at_ns)
        elif (turn := self._listening(at_ns)) is not None:
            turn.note("message_rejected")
            failure = Failed(Outcome.FAILED, Cause.AGENT_ERROR, event.detail, final=False)
            turn.reply_failure = turn.reply_failure or failure

    def _on_reviewed(self, event: Reviewed, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is not None:
            turn.review(event)

    def _quitted(self, turn: OpenTurn, reaction: str, at_ns: int) -> None:
        """What the server made of an analyst that said it quits."""
        turn.note(f"quit_{reaction}")
        self._close(turn, at_ns)

    def _on_pending(self, event: Pending, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is not None and not self._is_socket:
            turn.poll_key, turn.poll_ns = event.key, event.after_ns
            turn.record.execution = event.execution or turn.record.execution
            if self.phase is not Phase.HUMAN:
                self._poll_later(turn, at_ns)

    def _poll_later(self, turn: OpenTurn, at_ns: int) -> None:
        turn.poll_at_ns = at_ns + turn.poll_ns
        self._enter(Phase.POLLING, at_ns)

    def _on_completed(self, event: Completed, at_ns: int) -> None:
        if self._turn is not None and self._turn.quitting:
            self._quitted(self._turn, "heeded", at_ns)
            return
        turn = self._listening(at_ns)
        if turn is None:
            return
        if turn.failure is not None:
            self._fail(turn, at_ns, turn.failure, keep=True)
        elif foreign := turn.foreign_tag():
            detail = f"the answer carries the tag {foreign!r} of another turn"
            self._finish(turn, at_ns, Outcome.FAILED, Cause.ISOLATION, detail, keep=True)
        else:
            self._history.append((turn.ask.text, turn.answer))
            self._finish(turn, at_ns, Outcome.COMPLETED, None, "", keep=True)

    def _on_failed(self, event: Failed, at_ns: int) -> None:
        turn = self._turn
        if turn is not None and turn.quitting:
            if event.final:
                self._quitted(turn, "heeded", at_ns)
        elif turn is None or turn.verdict is not None:
            self._strays += 1
        elif self.phase in (Phase.CONNECTING, Phase.LOGGING_IN):
            self._no_connection(turn, at_ns, event.cause, event.detail)
        elif event.cause is Cause.EMPTY_ANSWER and turn.record.chunks:
            # The decoder of a resumed socket did not see what was said on the old one.
            self._on_completed(Completed(), at_ns)
        else:
            cut = event.final and event.cause is Cause.STREAM_CUT
            turn.failure = turn.failure or (turn.reply_failure if cut else None) or event
            if not event.final:
                self._listening(at_ns)
            elif cut:
                turn.lose(at_ns, None)
                self._fail(turn, at_ns, turn.failure, keep=False)
            else:
                self._fail(turn, at_ns, turn.failure, keep=True)

    def _on_lost(self, event: Lost, at_ns: int) -> None:
        self._ready = False
        turn = self._turn
        if turn is not None and turn.quitting:
            self._quitted(turn, "closed", at_ns)
        elif turn is not None and turn.verdict is None:
            self._lose(turn, at_ns, event)
        elif turn is None:
            self._lose_idle(at_ns, event.code)

    def _on_notice(self, event: Notice, at_ns: int) -> None:
        turn = self._turn
        if turn is None:
            # A trace id is sent behind the end of its turn, by rule.
            self._strays += event.kind != "trace"
        elif event.kind == "headers":
            turn.record.status = int(event.detail)
        elif event.kind == "encoding":
            turn.record.content_encoding = event.detail
        else:
            if event.kind == "usage" and event.detail:
                turn.record.output_tokens = int(event.detail)
            turn.note(event.kind)

    def _human_done(self, turn: OpenTurn, now_ns: int) -> None:
        """The analyst has thought: reply, or lose the connection first if the persona says so."""
        plan, prompt = turn.reply_plan, turn.prompt
        if plan is None or prompt is None:
            raise GeneratorError("the analyst is at a prompt that is not open")
        if plan.drop_after_ns is not None:
            turn.note("dropped_at_prompt")
            self._lose(turn, now_ns, Lost("the analyst lost the connection at the prompt"))
            return
        turn.replying = None
        if prompt.timeout_ns is not None and now_ns - self._entered_ns >= prompt.timeout_ns:
            turn.note("hitl_late")
        if prompt.kind is PromptKind.OAUTH_CONSENT:
            self._go_to(turn, Visit(prompt.key, deny=plan.value == "deny"), now_ns)
        else:
            self._reply(turn, Reply(prompt, plan.value, plan.shape), plan.twice)
        if self.phase is Phase.AWAY:
            return
        if turn.verdict is None:
            self._go_on(turn, now_ns)
        else:
            self._settle_until(now_ns)

    def _go_to(self, turn: OpenTurn, visit: Visit, now_ns: int) -> None:
        """Follow a login; where that leads the analyst's browser away, its socket is closed."""
        turn.reply_written(now_ns)
        if self.dialect.reopens:
            self._ready = False
            self._decoder = None
            self._commands.append(Drop(orderly=True))
            self._enter(Phase.AWAY, now_ns)
        self._commands.append(visit)

    def _reply(self, turn: OpenTurn, reply: Reply, twice: bool) -> None:
        outbound = self.dialect.reply(reply, turn.ask, self.identity)
        if isinstance(outbound, str):
            self._unflushed.append(OpenTurn.reply_written)
            self._commands.extend([Send(outbound)] * (2 if twice else 1))
        else:
            turn.again = outbound if twice else None
            self._commands.append(Post(Errand.REPLY, outbound))


HANDLERS: dict[type, Callable[[Hearing, Any, int], None]] = {
    Opened: Hearing._on_opened,
    Login: Hearing._on_login,
    Started: Hearing._on_started,
    Progress: Hearing._on_progress,
    Answer: Hearing._on_answer,
    Prompt: Hearing._on_prompt,
    Say: Hearing._on_say,
    Rejected: Hearing._on_rejected,
    Reviewed: Hearing._on_reviewed,
    Pending: Hearing._on_pending,
    Completed: Hearing._on_completed,
    Failed: Hearing._on_failed,
    Lost: Hearing._on_lost,
    Notice: Hearing._on_notice,
}
"""By the event's class: one dict look-up an event, on the hot path."""
