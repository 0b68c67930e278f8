"""An event is seen when it arrives, not when the ones after it have filled a buffer.

Locust's ``FastHttpUser.iter_lines`` reads ahead 1 KiB: a short first line shows only when later
ones arrive (README, "Why not Locust's own clients").
"""

from __future__ import annotations

import pytest
from analyst import Analyst

PAUSE_MS = 1_000


@pytest.mark.case("D-12")
@pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws"])
def test_a_first_event_followed_by_silence_is_stamped_before_the_silence(
    shared_mock_agent, dialect
):
    analyst = Analyst(shared_mock_agent().url, dialect)
    record = analyst.ask(f"first_ms=20 steps=1 step_ms={PAUSE_MS} tokens=1 token_ms=1", tag="t")
    analyst.close()

    found = record.to_row()
    silence_ended = found["first_answer_ms"]
    assert found["first_progress_ms"] < silence_ended - PAUSE_MS / 2
    assert silence_ended >= PAUSE_MS
