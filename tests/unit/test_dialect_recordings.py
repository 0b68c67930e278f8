"""The NAT dialects against the bytes of a real server (NeMo Agent Toolkit 1.9.0)."""

from __future__ import annotations

import json

import pytest
from replay import (
    CUTS,
    RECORDINGS,
    answer,
    http_events,
    looks,
    replies,
    socket_events,
    story,
)

from loadgen.dialects import create
from loadgen.events import Failed, Lost, Prompt, PromptKind

PLAIN = "w0 w1 w2 tag=t1"
CALM = "started tool*2 answer*4 (echo)"
AFTER_REPLY = "tool answer*5 (echo) completed"
FAILS = "failed/agent_error? failed/agent_error"
ODD = (
    "w0 <odd> caf\u00e9 \u6f22\u5b57 \U0001f600 a\u2028b\u2029c\x85d\x0be\x0cf\r\n\ndata: [DONE]"
    "\n\nevent: error\n </odd> end"
)

NOBODY_TO_ASK = (
    "workflow_error: No human prompt callback was registered. Unable to handle requested prompt. "
    "(NotImplementedError)"
)

# recording: what happens, the whole answer, what the last failure says
V1_CHAT_STREAM = {
    "http_v1_chat_stream": (f"(headers) {CALM} completed", PLAIN, ""),
    "http_v1_chat_stream_trace": (
        "(headers) started (trace) tool*2 answer*4 (echo) completed", PLAIN, "",
    ),
    "http_v1_chat_stream_llm": (
        "(headers) started tool*2 llm answer llm answer llm answer*2 llm*2 (echo) completed",
        PLAIN, "",
    ),
    "http_odd_characters_chat_stream": ("(headers) started answer*3 (echo) completed", ODD, ""),
    "http_hitl_text_v1_chat_stream": (
        f"(headers) started tool prompt:text {AFTER_REPLY}", f"[hitl text:2024] {PLAIN}", "",
    ),
    "http_hitl_binary_choice_v1_chat_stream": (
        f"(headers) started tool prompt:binary_choice {AFTER_REPLY}",
        f"[hitl binary_choice:continue] {PLAIN}", "",
    ),
    "http_hitl_checkbox_v1_chat_stream": (
        f"(headers) started tool prompt:checkbox {AFTER_REPLY}",
        f"[hitl checkbox:push] {PLAIN}", "",
    ),
    "http_hitl_answer_wrong_type": (
        f"(headers) started tool prompt:binary_choice {AFTER_REPLY}",
        f"[hitl binary_choice:yes] {PLAIN}", "",
    ),
    "http_hitl_bad_answers_then_good_then_duplicate": (
        f"(headers) started tool prompt:text {AFTER_REPLY}", f"[hitl text:2024] {PLAIN}", "",
    ),
    "http_execution_status_after_stream": (
        f"(headers) started tool prompt:text {AFTER_REPLY}", f"[hitl text:2024] {PLAIN}", "",
    ),
    "http_hitl_notification_stream": (
        "(headers) started tool answer tool answer*4 (echo) completed",
        f"[hitl notification:Notification acknowledgement.] {PLAIN}", "",
    ),
    "http_fail_start_v1_chat_stream": (
        f"(headers) {FAILS}", "", "workflow_error: scripted failure at start (ScriptedFailure)",
    ),
    "http_fail_mid_v1_chat_stream": (
        f"(headers) started tool*2 answer*2 {FAILS}", "w0 w1 ",
        "workflow_error: scripted failure after 2 chunks (ScriptedFailure)",
    ),
    "http_empty_messages": (
        f"(headers) {FAILS}", "", "workflow_error: list index out of range (IndexError)",
    ),
    "http_oauth_without_identity": (
        f"(headers) {FAILS}", "",
        "workflow_error: Authentication failed. No resolved user identity is available. "
        "(RuntimeError)",
    ),
    "http_peruser_no_identity_stream": (
        f"(headers) {FAILS}", "", "workflow_error: user_id is required for per-user workflow",
    ),
    "http_oauth_stream": (
        "(headers) prompt:oauth_consent started answer tool*2 answer*4 (echo) completed",
        f"[oauth ok] {PLAIN}", "",
    ),
    "http_disconnect_mid_stream": (
        "(headers) started tool*2 answer*4 incomplete/stream_cut", "w0 w1 w2 w3 ",
        "the connection was cut",
    ),
    "http_hitl_stream_abandoned_then_answered": (
        "(headers) started tool prompt:text tool incomplete/stream_cut", "",
        "the connection was cut",
    ),
    "http_invalid_body": (
        "(headers) (body) refused/protocol_violation", "",
        'HTTP 422: {"detail":[{"type":"missing","loc":["body","messages"]',
    ),
    "http_invalid_json": (
        "(headers) (body) refused/protocol_violation", "",
        'HTTP 422: {"detail":[{"type":"json_invalid"',
    ),
    "http_wrong_method": (
        "(headers) (body) refused/protocol_violation", "",
        'HTTP 405: {"detail":"Method Not Allowed"}',
    ),
}  # fmt: skip

CHAT_STREAM = {
    "http_chat_stream": (f"(headers) {CALM} (finish) completed", PLAIN, ""),
    "http_fail_mid_chat_stream": (
        f"(headers) started tool*2 answer*2 {FAILS}", "w0 w1 ",
        "workflow_error: scripted failure after 2 chunks (ScriptedFailure)",
    ),
    "http_hitl_chat_stream_legacy": (
        f"(headers) started tool {FAILS}", "", NOBODY_TO_ASK,
    ),
    "http_peruser_no_identity_legacy_stream": (
        "(headers) (body) failed/agent_error", "", "HTTP 500: Internal Server Error",
    ),
}  # fmt: skip

COMPLETIONS_STREAM = {
    "http_completions_stream": (f"(headers) {CALM} (finish) completed", PLAIN, ""),
    "http_fail_mid_completions_stream": (
        f"(headers) started tool*2 answer*2 {FAILS}", "w0 w1 ",
        "workflow_error: scripted failure after 2 chunks (ScriptedFailure)",
    ),
    "http_hitl_completions_stream_default": (f"(headers) started tool {FAILS}", "", NOBODY_TO_ASK),
}  # fmt: skip

COMPLETIONS_WITH_EXTENSIONS = {
    "http_hitl_completions_stream_interactive": (
        f"(headers) started tool prompt:binary_choice {AFTER_REPLY}",
        f"[hitl binary_choice:continue] {PLAIN}", "",
    ),
}  # fmt: skip

V1_WORKFLOW_STREAM = {
    "http_v1_workflow_stream": (f"(headers) {CALM} completed", PLAIN, ""),
    "http_odd_characters_workflow_stream": (
        "(headers) started answer*3 (echo) completed", ODD, "",
    ),
    "http_hitl_v1_workflow_stream": (
        f"(headers) started tool prompt:binary_choice {AFTER_REPLY}",
        f"[hitl binary_choice:continue] {PLAIN}", "",
    ),
    "http_invalid_workflow_body": (
        "(headers) (body) refused/protocol_violation", "",
        'HTTP 422: {"detail":[{"type":"value_error","loc":["body"]',
    ),
}  # fmt: skip

GENERATE_STREAM = {
    "http_generate_stream": (f"(headers) {CALM} completed", PLAIN, ""),
    "http_hitl_generate_stream_legacy": (f"(headers) started tool {FAILS}", "", NOBODY_TO_ASK),
}  # fmt: skip

ALL_STEPS = "(headers) started (echo) tool*2 answer*4 (echo)*2 completed"

V1_WORKFLOW_FULL = {
    "http_v1_workflow_full": (ALL_STEPS, PLAIN, ""),
    "http_v1_workflow_full_filter": ("(headers) tool answer*4 llm completed", PLAIN, ""),
    "http_fail_mid_v1_workflow_full": (
        f"(headers) started (echo) tool*2 answer*2 {FAILS}", "w0 w1 ",
        "workflow_error: scripted failure after 2 chunks (ScriptedFailure)",
    ),
}  # fmt: skip

AT_ONCE = ("(headers) (body) answer completed", PLAIN, "")
RUN_FAILED = "(headers) (body) failed/agent_error"

V1_CHAT = {
    "http_v1_chat": AT_ONCE,
    "http_v1_chat_trace": AT_ONCE,
    "http_hitl_poll_v1_chat": (
        "(headers) (body) pending prompt:radio pending answer completed",
        f"[hitl radio:sms] {PLAIN}", "",
    ),
    "http_hitl_poll_then_failure": (
        "(headers) (body) pending prompt:text pending failed/agent_error", "",
        "scripted failure at end",
    ),
    "http_identity_header_missing_single": (
        RUN_FAILED, "",
        "workflow_error: Configured identity header 'X-User-ID' is missing (ExecutionFailed)",
    ),
    "http_no_such_path": (
        "(headers) (body) refused/protocol_violation", "", 'HTTP 404: {"detail":"Not Found"}',
    ),
}  # fmt: skip

V1_WORKFLOW = {
    "http_v1_workflow": AT_ONCE,
    "http_fail_mid_v1_workflow": (
        RUN_FAILED, "", "workflow_error: scripted failure after 2 chunks (ExecutionFailed)",
    ),
    "http_hitl_poll_v1_workflow": (
        "(headers) (body) pending prompt:text pending answer completed",
        f"[hitl text:2024] {PLAIN}", "",
    ),
}  # fmt: skip

GENERATE = {
    "http_generate": AT_ONCE,
    "http_fail_mid_generate": (
        RUN_FAILED, "", "workflow_error: scripted failure after 2 chunks (ScriptedFailure)",
    ),
    "http_hitl_generate_legacy": (RUN_FAILED, "", NOBODY_TO_ASK),
}  # fmt: skip

TABLES = [
    ("nat-sse", "/v1/chat/stream", {}, V1_CHAT_STREAM),
    ("nat-sse", "/chat/stream", {}, CHAT_STREAM),
    ("nat-sse", "/v1/chat/completions", {}, COMPLETIONS_STREAM),
    ("nat-sse", "/v1/chat/completions", {"extensions": True}, COMPLETIONS_WITH_EXTENSIONS),
    ("nat-sse", "/v1/workflow/stream", {}, V1_WORKFLOW_STREAM),
    ("nat-sse", "/generate/stream", {}, GENERATE_STREAM),
    ("nat-sse", "/v1/workflow/full", {}, V1_WORKFLOW_FULL),
    ("nat-sse", "/generate/full", {}, {"http_generate_full": (ALL_STEPS, PLAIN, "")}),
    ("nat-poll", "/v1/chat", {}, V1_CHAT),
    ("nat-poll", "/chat", {}, {"http_chat": AT_ONCE, "http_chat_trace": AT_ONCE}),
    ("nat-poll", "/v1/chat/completions", {}, {"http_completions": AT_ONCE}),
    ("nat-poll", "/v1/workflow", {}, V1_WORKFLOW),
    ("nat-poll", "/generate", {}, GENERATE),
]

HTTP = [
    (dialect, route, options, name, row)
    for dialect, route, options, table in TABLES
    for name, row in table.items()
]

NOT_OURS = {
    "http_async_fail": "async jobs are no chat",
    "http_async_job": "async jobs are no chat",
    "http_async_sync_timeout": "async jobs are no chat",
    "http_async_unknown_job": "async jobs are no chat",
    "http_health": "no answer to a question",
    "http_interaction_unknown": "the answer to a reply, which the test of replies reads",
    "http_v1_workflow_atif_never_ends": "its streams never end, on any server",
}
"""Recordings that no dialect reads as a turn, and why."""

ANONYMOUS = "opened started answer*2 (echo) completed"
REFUSED_LOGIN = "opened login-refused lost:1008"
AT_PROMPT = "opened started tool prompt:text tool"
ONE_TURN = f"opened {CALM} completed"
REJECTED = "1008 policy violation: Identity credential was rejected"

# recording: what happens on each of its sockets, the whole answer of all, what the last failure or
# loss says
WEBSOCKET = {
    "ws_plain_chat_stream": ([ONE_TURN], PLAIN, ""),
    "ws_plain_chat": (["opened started tool*2 answer (echo) completed"], PLAIN, ""),
    "ws_plain_generate": (["opened started tool*2 answer (echo) completed"], PLAIN, ""),
    "ws_llm_steps": (
        ["opened started tool*2 llm answer llm answer llm answer*2 llm*2 (echo) completed"],
        PLAIN, "",
    ),
    "ws_two_turns_one_socket": (
        [f"opened {CALM} completed {CALM} completed"], f"{PLAIN}w0 w1 w2 tag=t2", "",
    ),
    "ws_fail_mid": (
        [f"opened started tool*2 answer*2 {FAILS}"], "w0 w1 ",
        "workflow_error: ScriptedFailure (scripted failure after 2 chunks)",
    ),
    "ws_hitl_text": (
        [f"opened started tool prompt:text {AFTER_REPLY}"], f"[hitl text:2024] {PLAIN}", "",
    ),
    "ws_hitl_binary_choice": (
        [f"opened started tool prompt:binary_choice {AFTER_REPLY}"],
        f"[hitl binary_choice:continue] {PLAIN}", "",
    ),
    "ws_hitl_dropdown": (
        [f"opened started tool prompt:dropdown {AFTER_REPLY}"],
        f"[hitl dropdown:email] {PLAIN}", "",
    ),
    "ws_hitl_value_not_offered": (
        [f"opened started tool prompt:radio {AFTER_REPLY}"],
        f"[hitl radio:carrier pigeon] {PLAIN}", "",
    ),
    "ws_hitl_reply_with_wrong_ids": (
        [f"opened started tool prompt:text {AFTER_REPLY}"], f"[hitl text:2024] {PLAIN}", "",
    ),
    "ws_hitl_notification": (
        ["opened started tool prompt:notification answer tool answer*4 (echo) completed"],
        f"[hitl notification:Notification acknowledgement.] {PLAIN}", "",
    ),
    "ws_hitl_duplicate_reply": (
        ["opened started tool prompt:text tool answer lost:1006"], "[hitl text:one] ",
        "1006 no close frame",
    ),
    "ws_hitl_late_reply": (
        [f"opened started tool prompt:text {AFTER_REPLY} lost:1006"],
        f"[hitl text:TIMEOUT] {PLAIN}", "1006 no close frame",
    ),
    "ws_hitl_timeout": (
        [f"opened started tool prompt:text tool {FAILS}"], "",
        "workflow_error: TimeoutError (HITL prompt timed out after 1s waiting for human response)",
    ),
    "ws_oauth": (
        ["opened prompt:oauth_consent started answer tool*2 answer*4 (echo) completed"],
        f"[oauth ok] {PLAIN}", "",
    ),
    "ws_new_message_while_prompt_pending": (
        [f"opened started tool prompt:text (stale) {CALM} completed"], "w0 w1 w2 tag=other", "",
    ),
    "ws_auth_api_key": (["opened login started answer*2 (echo) completed"], "w0 end", ""),
    "ws_auth_jwt_good": (["opened login started answer*2 (echo) completed"], "w0 end", ""),
    "ws_auth_jwt_garbage": (
        ["opened login-refused started answer*2 (echo) completed"], "w0 end", "",
    ),
    "ws_auth_jwt_no_identity": (
        ["opened login-refused started answer*2 (echo) completed"], "w0 end", "",
    ),
    "ws_auth_unknown_method": ([ANONYMOUS], "w0 end", ""),
    "ws_auth_oauth_mode": ([ANONYMOUS], "w0 end", ""),
    "ws_auth_header_bad_basic": (["opened lost:1006"], "", "1006 no close frame"),
    "ws_auth_header_garbage_jwt": (["opened lost:1006"], "", "1006 no close frame"),
    "ws_auth_strict_no_credential": ([ONE_TURN], PLAIN, ""),
    "ws_auth_strict_refused_at_connect": ([REFUSED_LOGIN], "", REJECTED),
    "ws_auth_strict_refused_cookie": ([REFUSED_LOGIN], "", REJECTED),
    "ws_auth_strict_refused_method": (["opened login-refused login"], "", ""),
    "ws_identity_header_missing": ([REFUSED_LOGIN], "", REJECTED),
    "ws_identity_header_and_auth_message": (
        [f"opened login-refused {CALM} completed"], PLAIN, "",
    ),
    "ws_peruser_no_identity": (
        [f"opened {FAILS}"], "", "workflow_error: ValueError (user_id is required for per-user",
    ),
    "ws_no_such_path": (["refused/auth_rejected"], "", "handshake refused with HTTP 403"),
    "ws_invalid_bad_schema_type": ([ONE_TURN], PLAIN, ""),
    "ws_invalid_no_content": ([ONE_TURN], PLAIN, ""),
    "ws_invalid_no_type": ([ONE_TURN], PLAIN, ""),
    "ws_invalid_string_content": ([ONE_TURN], PLAIN, ""),
    "ws_invalid_unknown_type": ([ONE_TURN], PLAIN, ""),
    "ws_invalid_no_user_role": (
        [f"opened refused/protocol_violation {CALM} completed"], PLAIN,
        "invalid_user_message_content: User message content could not be found "
        "(No user text content found in messages.)",
    ),
    "ws_invalid_empty_messages": (
        [f"opened {FAILS} {CALM} completed"], PLAIN,
        "workflow_error: IndexError (list index out of range)",
    ),
    "ws_invalid_binary": (["opened lost:1006"], "", "1006 no close frame"),
    "ws_invalid_not_json": (["opened lost:1006"], "", "1006 no close frame"),
    "ws_abort_mid_turn_then_reconnect": (
        ["opened started tool*2 answer*4", "opened answer*57 (echo) completed"],
        "".join(f"w{n} " for n in range(60)) + "tag=first", "",
    ),
    "ws_disconnect_mid_turn_then_reconnect": (
        ["opened started tool*2 answer*4", "opened"], "w0 w1 w2 w3 ", "",
    ),
    "ws_resume_pending_prompt": (
        [AT_PROMPT, "opened prompt:text answer*5 (echo) completed"],
        f"[hitl text:2024] {PLAIN}", "",
    ),
    "ws_resume_with_timeout": (
        [AT_PROMPT, "opened prompt:text answer*5 (echo) completed"],
        f"[hitl text:2024] {PLAIN}", "",
    ),
    "ws_resume_then_second_prompt": (
        [AT_PROMPT, "opened prompt:text prompt:radio lost:1006"], "", "1006 no close frame",
    ),
    "ws_resume_lost_because_closed_at_once": (
        ["opened started tool prompt:text", "opened prompt:text"], "", "",
    ),
    "ws_resume_no_identity": ([AT_PROMPT, "opened"], "", ""),
    "ws_resume_other_user": ([AT_PROMPT, "opened"], "", ""),
    "ws_resume_without_query": ([AT_PROMPT, "opened"], "", ""),
}  # fmt: skip


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    ("dialect", "route", "options", "name", "row"), HTTP, ids=[name for *_, name, _ in HTTP]
)
def test_a_recorded_answer_means_the_same_however_it_is_cut(
    dialect, route, options, name, row, cut
):
    events = http_events(name, create(dialect, route, options=options), CUTS[cut])
    told, text, detail = row
    assert story(events) == told
    assert answer(events) == text
    assert _last_detail(events).startswith(detail)
    assert bool(_last_detail(events)) == bool(detail)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", WEBSOCKET)
def test_a_recorded_socket_means_the_same_however_it_is_cut(name, cut):
    told, text, detail = WEBSOCKET[name]
    sockets = socket_events(name, CUTS[cut])
    events = [event for socket in sockets for event in socket.events]
    assert [story(socket.events) for socket in sockets] == told
    assert answer(events) == text
    assert _last_detail(events).startswith(detail)
    assert bool(_last_detail(events)) == bool(detail)


def test_every_recording_is_in_one_of_the_tables():
    http = sorted(path.stem for path in RECORDINGS.glob("http_*.raw"))
    sockets = {path.stem for path in RECORDINGS.glob("ws_*.jsonl")}
    assert http == sorted([*(name for *_, name, _ in HTTP), *NOT_OURS])
    assert sockets == set(WEBSOCKET)


ACCEPTED = "(reply accepted)"
MALFORMED = "refused/protocol_violation?"
UNKNOWN = "failed/agent_error?"


@pytest.mark.parametrize("dialect", ["nat-sse", "nat-poll"])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("http_hitl_text_v1_chat_stream", [ACCEPTED]),
        ("http_hitl_answer_wrong_type", [ACCEPTED]),
        ("http_hitl_poll_v1_chat", [ACCEPTED]),
        ("http_hitl_stream_abandoned_then_answered", [ACCEPTED]),
        (
            "http_hitl_bad_answers_then_good_then_duplicate",
            [MALFORMED, MALFORMED, UNKNOWN, ACCEPTED, UNKNOWN],
        ),
        ("http_interaction_unknown", [UNKNOWN]),
    ],
)
def test_the_recorded_answer_to_a_reply_is_understood(dialect, name, told):
    answers = [create(dialect).replied(status, body) for status, body in replies(name)]
    assert [story([event]) for event in answers] == told


@pytest.mark.parametrize("dialect", ["nat-sse", "nat-poll"])
@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("http_execution_status_after_stream", ["running"]),
        ("http_hitl_stream_abandoned_then_answered", ["interaction_required", "running"]),
        ("http_hitl_poll_v1_chat", ["running", "completed"]),
        ("http_hitl_poll_then_failure", ["running", "failed"]),
    ],
)
def test_what_the_server_said_of_a_run_is_its_state_in_a_word(dialect, name, states):
    assert [create(dialect).state(status, body) for status, body in looks(name)] == states


def test_a_consent_is_wanted_at_the_url_and_by_the_run_that_the_server_named():
    (wanted,) = (
        event
        for event in http_events("http_oauth_stream", create("nat-sse"))
        if type(event) is Prompt
    )
    assert wanted.kind is PromptKind.OAUTH_CONSENT
    assert wanted.key.startswith("http://127.0.0.1:8899/authorize?response_type=code&client_id=sim")
    assert wanted.execution == "a64ee71a-50b4-4ed3-9239-41cf1a97e009"


def test_a_pending_prompt_that_is_sent_again_has_a_new_key_and_less_time():
    first, again = (
        event
        for socket in socket_events("ws_resume_with_timeout")
        for event in socket.events
        if type(event) is Prompt
    )
    assert first.key != again.key
    assert (first.timeout_ns, again.timeout_ns) == (30_000_000_000, 28_000_000_000)
    sent = json.loads(socket_events("ws_resume_with_timeout")[1].sent[0])
    assert sent["parent_id"] == again.key


def _last_detail(events):
    details = [event.detail for event in events if type(event) in (Failed, Lost)]
    return details[-1] if details else ""
