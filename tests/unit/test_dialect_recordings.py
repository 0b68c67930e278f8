"""Both NAT dialects against the bytes of a real server (NeMo Agent Toolkit 1.9.0)."""

from __future__ import annotations

import json

import pytest
from replay import CUTS, RECORDINGS, answer, http_events, socket_events, story

from loadgen.dialects.nat_sse import NatSse
from loadgen.events import Failed, Lost, Prompt

PLAIN = "w0 w1 w2 tag=t1"
CALM = "started tool*2 answer*4 (echo)"
AFTER_REPLY = "tool answer*5 (echo) completed"
FAILS = "failed/agent_error? failed/agent_error"
ODD = (
    "w0 <odd> caf\u00e9 \u6f22\u5b57 \U0001f600 a\u2028b\u2029c\x85d\x0be\x0cf\r\n\ndata: [DONE]"
    "\n\nevent: error\n </odd> end"
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
    "http_oauth_stream": ("(headers) failed/agent_error (late)*9", "", "oauth required"),
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
        f"(headers) started tool {FAILS}", "",
        "workflow_error: No human prompt callback was registered. Unable to handle requested "
        "prompt. (NotImplementedError)",
    ),
    "http_peruser_no_identity_legacy_stream": (
        "(headers) (body) failed/agent_error", "", "HTTP 500: Internal Server Error",
    ),
}  # fmt: skip

HTTP = [("/v1/chat/stream", name, row) for name, row in V1_CHAT_STREAM.items()]
HTTP += [("/chat/stream", name, row) for name, row in CHAT_STREAM.items()]

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
        ["opened failed/agent_error (late)*8 (echo) (late)"], "", "oauth consent needed",
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
@pytest.mark.parametrize(("route", "name", "row"), HTTP, ids=[name for _, name, _ in HTTP])
def test_a_recorded_answer_means_the_same_however_it_is_cut(route, name, row, cut):
    events = http_events((RECORDINGS / f"{name}.raw").read_bytes(), NatSse(route), CUTS[cut])
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


def test_every_recording_of_these_dialects_is_in_the_tables():
    chat = {path.stem for path in RECORDINGS.glob("http_*chat_stream*.raw")}
    sockets = {path.stem for path in RECORDINGS.glob("ws_*.jsonl")}
    assert chat - {name for _, name, _ in HTTP} == set()
    assert sockets == set(WEBSOCKET)


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
