"""The mock's routes beside the chat streams: answers in one piece, polling, jobs, descriptions.

Whole answers are compared with recordings in ``test_mock_recordings_http``.
"""

from __future__ import annotations

from contextlib import suppress
from time import sleep
from typing import Any

import httpx
import pytest

from loadgen.clock import NS_PER_MS, NS_PER_S, now_ns
from tests.conftest import MockAgent, StartMock

QUICK = "steps=0 tokens=2 token_ms=5 tag=t"
ANSWER = "w0 w1 tag=t"
GOOD = {"response": {"type": "text", "text": "2024"}}


@pytest.fixture(scope="module")
def agent(shared_mock_agent: StartMock) -> MockAgent:
    return shared_mock_agent()


def body_for(path: str, question: str, **more: Any) -> dict[str, Any]:
    if "workflow" in path or "generate" in path:
        return {"input_message": question, **more}
    return {"messages": [{"role": "user", "content": question}], **more}


def post(agent: MockAgent, path: str, question: str, **more: Any) -> httpx.Response:
    return httpx.post(agent.url + path, json=body_for(path, question, **more), timeout=10)


def poll(agent: MockAgent, url: str) -> dict[str, Any]:
    """The status of an execution once it is over."""
    limit_ns = now_ns() + 10 * NS_PER_S
    while now_ns() < limit_ns:
        status: dict[str, Any] = httpx.get(agent.url + url).json()
        if status["status"] != "running":
            return status
        sleep(0.01)
    raise AssertionError("still running")


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/workflow", "value"),
        ("/generate", "value"),
        ("/v1/chat", "chat"),
        ("/chat", "chat"),
        ("/v1/chat/completions", "chat"),
    ],
)
def test_an_answer_in_one_piece(agent: MockAgent, path: str, shape: str) -> None:
    answer = post(agent, path, QUICK)
    assert answer.status_code == 200
    assert answer.headers.get_list("content-type") == ["application/json", "application/json"]
    content = answer.json()
    text = content["value"] if shape == "value" else content["choices"][0]["message"]["content"]
    assert text == ANSWER


@pytest.mark.parametrize(
    ("path", "details"),
    [
        ("/v1/workflow", "ExecutionFailed"),
        ("/v1/chat", "ExecutionFailed"),
        ("/generate", "ScriptedFailure"),
        ("/v1/chat/completions", "ScriptedFailure"),
    ],
)
def test_a_failed_run_is_422_with_an_error_of_the_workflow(
    agent: MockAgent, path: str, details: str
) -> None:
    answer = post(agent, path, "steps=0 fail=start")
    assert answer.status_code == 422
    assert answer.json() == {
        "code": "workflow_error",
        "message": "scripted failure at start",
        "details": details,
    }


@pytest.mark.parametrize("path", ["/v1/workflow", "/v1/chat"])
def test_a_prompt_makes_it_202_and_the_rest_is_polled(agent: MockAgent, path: str) -> None:
    answer = post(agent, path, f"{QUICK} hitl=text,radio")
    assert answer.status_code == 202
    accepted = answer.json()
    assert accepted["status"] == "interaction_required"
    assert accepted["status_url"] == f"/executions/{accepted['execution_id']}"
    assert accepted["prompt"]["input_type"] == "text"
    assert httpx.post(agent.url + accepted["response_url"], json=GOOD).status_code == 204
    second = poll(agent, accepted["status_url"])
    assert second["prompt"]["input_type"] == "radio"
    assert second["interaction_id"] != accepted["interaction_id"]
    choice = {"response": {"type": "radio", "selected_option": {"value": "sms"}}}
    assert httpx.post(agent.url + second["response_url"], json=choice).status_code == 204
    done = poll(agent, accepted["status_url"])
    assert done["status"] == "completed"
    assert f"[hitl text:2024 radio:sms] {ANSWER}" in str(done["result"])


def test_a_polled_run_that_fails_says_so(agent: MockAgent) -> None:
    accepted = post(agent, "/v1/chat", "steps=0 tokens=0 hitl=text fail=end").json()
    httpx.post(agent.url + accepted["response_url"], json=GOOD)
    status = poll(agent, accepted["status_url"])
    assert (status["status"], status["error"]) == ("failed", "scripted failure at end")


def test_an_unanswered_prompt_fails_after_its_timeout_and_the_grace(mock_agent: StartMock) -> None:
    agent = mock_agent("--prompt-grace", "0.2")
    asked_ns = now_ns()
    accepted = post(agent, "/v1/chat", "steps=0 tokens=0 hitl=text hitl_timeout=1").json()
    status = accepted
    while status["status"] == "interaction_required":
        status = httpx.get(agent.url + accepted["status_url"]).json()
    assert status["status"] == "failed"
    assert 1_200 * NS_PER_MS <= now_ns() - asked_ns < 2_500 * NS_PER_MS
    late = httpx.post(agent.url + accepted["response_url"], json=GOOD)
    assert late.status_code == 400


def test_polled_prompts_keep_their_slots_whoever_has_left(mock_agent: StartMock) -> None:
    agent = mock_agent("--slots", "2")
    waiting = [post(agent, "/v1/chat", f"{QUICK} hitl=text").json() for _ in range(2)]
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{agent.url}/v1/chat", json=body_for("/v1/chat", QUICK), timeout=0.4)
    assert httpx.get(f"{agent.url}/health").json() == {"status": "healthy"}
    assert agent.summary()["slots"] == {"total": 2, "held": 2, "waiting": 1}
    httpx.post(agent.url + waiting[0]["response_url"], json=GOOD)
    assert post(agent, "/v1/chat", QUICK).status_code == 200


def test_a_single_request_runs_to_its_end_without_its_client(mock_agent: StartMock) -> None:
    agent = mock_agent()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{agent.url}/v1/chat",
            json=body_for("/v1/chat", "steps=0 tokens=1 think_ms=400"),
            timeout=0.1,
        )
    (turn,) = agent.await_turns(1)
    assert (turn["outcome"], turn["transport"], turn["route"]) == ("completed", "http", "/v1/chat")


@pytest.mark.parametrize(
    ("path", "words", "error"),
    [
        ("/chat", "hitl=text", "No human prompt callback was registered."),
        ("/generate/stream", "hitl=text", "No human prompt callback was registered."),
        ("/v1/chat/completions", "hitl=text", "No human prompt callback was registered."),
        ("/v1/workflow/atif", "hitl=text", "No human prompt callback was registered."),
        ("/chat", "oauth=1", "No resolved user identity is available."),
    ],
)
def test_routes_that_are_not_interactive_cannot_ask(
    agent: MockAgent, path: str, words: str, error: str
) -> None:
    assert error in post(agent, path, f"{QUICK} {words}").text


def test_completions_can_prompt_when_they_are_allowed_to(shared_mock_agent: StartMock) -> None:
    agent = shared_mock_agent("--interactive-completions")
    assert post(agent, "/v1/chat/completions", f"{QUICK} hitl=text").status_code == 202
    plain = post(agent, "/v1/chat/completions", QUICK, stream=True)
    assert "[DONE]" not in plain.text
    assert '"content":"tag=t"' in plain.text


@pytest.mark.parametrize(
    ("filter_steps", "expected"),
    [
        ("none", set()),
        ("NONE", set()),
        ("LLM_END,TOOL_END", {"LLM_END", "TOOL_END"}),
        ("tool_end", set()),
        ("BOGUS,WORKFLOW_START", {"WORKFLOW_START"}),
        (
            "",
            {"WORKFLOW_START", "FUNCTION_START", "TOOL_START", "TOOL_END", "LLM_START"}
            | {"LLM_NEW_TOKEN", "LLM_END", "FUNCTION_END", "WORKFLOW_END"},
        ),
    ],
)
@pytest.mark.parametrize("path", ["/v1/workflow/full", "/generate/full"])
def test_raw_steps_are_filtered_by_their_exact_names(
    agent: MockAgent, path: str, filter_steps: str, expected: set[str]
) -> None:
    answer = httpx.post(
        agent.url + path,
        params={"filter_steps": filter_steps},
        json={"input_message": "steps=1 step_ms=1 tokens=1 llm=1"},
    ).text
    kinds = {
        line.split('"type":"')[1].split('"')[0] for line in answer.splitlines() if "_data" in line
    }
    assert kinds == expected
    assert 'data: {"value": "w0 "}' in answer


def test_an_atif_stream_never_ends_and_keeps_its_slot(mock_agent: StartMock) -> None:
    agent = mock_agent("--slots", "1")
    request = {"input_message": "steps=1 step_ms=5 tokens=1"}
    seen = ""
    with (
        httpx.stream("POST", f"{agent.url}/v1/workflow/atif", json=request, timeout=0.5) as answer,
        suppress(httpx.ReadTimeout),
    ):
        for text in answer.iter_text():
            seen += text
        raise AssertionError(f"it ended: {seen}")
    assert '"step_id":3' in seen
    assert agent.await_turns(1)[0]["outcome"] == "client_gone"
    assert post(agent, "/chat", QUICK).status_code == 200


def test_a_job_is_submitted_polled_and_never_run_twice(agent: MockAgent) -> None:
    path = "/v1/workflow/async"
    job = {"job_id": f"job-{now_ns()}"}
    started = post(agent, path, f"{QUICK} think_ms=1500", **job)
    assert (started.status_code, started.json()) == (202, job | {"status": "submitted"})
    assert post(agent, path, QUICK, **job).json()["status"] in ("submitted", "running")
    url = f"{agent.url}{path}/job/{job['job_id']}"
    while (status := httpx.get(url).json())["status"] in ("submitted", "running"):
        sleep(0.02)
    assert (status["status"], status["output"]) == ("success", {"value": ANSWER})
    again = post(agent, path, QUICK, **job)
    assert (again.status_code, again.json()) == (200, job | {"status": "success"})


@pytest.mark.parametrize(
    ("words", "timeout_s", "status", "expected"),
    [
        (QUICK, 5, 200, "success"),
        ("steps=0 fail=start", 5, 200, "failure"),
        ("steps=0 hitl=text", 5, 200, "failure"),
        (f"{QUICK} think_ms=2000", 1, 202, "submitted"),
    ],
)
def test_a_job_is_waited_for_as_long_as_the_body_says(
    agent: MockAgent, words: str, timeout_s: int, status: int, expected: str
) -> None:
    answer = post(agent, "/generate/async", words, sync_timeout=timeout_s)
    assert (answer.status_code, answer.json()["status"]) == (status, expected)


def test_jobs_have_slots_of_their_own(mock_agent: StartMock) -> None:
    agent = mock_agent("--slots", "1", "--job-slots", "1")
    path = "/v1/workflow/async"
    first = post(agent, path, f"{QUICK} think_ms=5000").json()["job_id"]
    second = post(agent, path, QUICK).json()["job_id"]
    assert post(agent, "/chat", QUICK).status_code == 200
    jobs = [httpx.get(f"{agent.url}{path}/job/{id_}").json()["status"] for id_ in (first, second)]
    assert jobs == ["running", "submitted"]


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v1/workflow", {"input_message": "x", "more": 1}, []),
        ("/v1/workflow", {"input_message": 5}, ["input_message"]),
        ("/v1/workflow/async", {"input_message": "x", "sync_timeout": 301}, ["sync_timeout"]),
        ("/v1/chat", {"messages": [{"role": "who", "content": "x"}]}, ["messages", 0, "role"]),
        ("/v1/chat/completions", {"messages": [], "temperature": "hot"}, ["temperature"]),
    ],
)
def test_a_body_that_does_not_fit_is_422_and_says_where(
    agent: MockAgent, path: str, body: Any, where: list[str | int]
) -> None:
    answer = httpx.post(agent.url + path, json=body)
    assert answer.status_code == 422
    assert [problem["loc"] for problem in answer.json()["detail"]] == [["body", *where]]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/chat", ("Unknown error", "ExecutionFailed")),
        ("/chat", ("", "TypeError")),
        ("/v1/chat/completions", ("", "TypeError")),
    ],
)
@pytest.mark.parametrize("messages", [[], [{"role": "user", "content": "steps=0"}]])
@pytest.mark.parametrize("beside", ["steps=0", "", 7])
def test_an_agent_takes_messages_or_an_input_message(
    agent: MockAgent, path: str, expected: tuple[str, str], messages: list[Any], beside: Any
) -> None:
    body = {"messages": messages, "input_message": beside}
    answer = httpx.post(agent.url + path, json=body)
    said = answer.json()
    assert (answer.status_code, said["message"], said["details"]) == (422, *expected)


def test_a_function_of_one_text_does_not_see_an_input_message(shared_mock_agent: StartMock) -> None:
    agent = shared_mock_agent("--workflow-input", "text")
    body = {"messages": [{"role": "user", "content": "steps=0"}], "input_message": "steps=0"}
    assert httpx.post(f"{agent.url}/chat", json=body).status_code == 200


def test_the_description_names_the_workflows_parameter(shared_mock_agent: StartMock) -> None:
    for options, expected in (((), "input_message"), (("--workflow-input", "topic"), "topic")):
        agent = shared_mock_agent(*options)
        described = httpx.get(f"{agent.url}/openapi.json").json()
        operation = described["paths"]["/v1/workflow/stream"]["post"]
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        schema = described["components"]["schemas"][reference.rsplit("/", 1)[1]]
        assert expected in schema["properties"]
        answer = httpx.post(f"{agent.url}/v1/workflow", json={expected: QUICK})
        assert answer.json() == {"value": ANSWER}
    assert httpx.post(f"{agent.url}/v1/workflow", json={"input_message": "x"}).status_code == 422


def test_legacy_routes_can_be_left_out(shared_mock_agent: StartMock) -> None:
    agent = shared_mock_agent("--no-legacy-routes")
    assert post(agent, "/chat", QUICK).status_code == 404
    assert post(agent, "/generate/full", QUICK).status_code == 404
    assert post(agent, "/v1/chat", QUICK).status_code == 200


@pytest.mark.case("D-37")
def test_an_idle_connection_is_closed_after_the_keep_alive(mock_agent: StartMock) -> None:
    agent = mock_agent("--keep-alive", "1")
    with httpx.Client() as client:
        client.get(f"{agent.url}/health")
        assert agent.summary()["connections"] >= 1
        sleep(1.5)
        assert agent.summary()["connections"] == 1, "only the one that asks"


def test_executions_are_remembered_as_far_as_wanted(mock_agent: StartMock) -> None:
    agent = mock_agent("--keep-executions", "1")
    urls = [post(agent, "/v1/chat", "steps=0 hitl=text").json()["status_url"] for _ in range(2)]
    assert [httpx.get(agent.url + url).status_code for url in urls] == [404, 200]


@pytest.mark.parametrize(
    ("word", "said"),
    [("status=503", 503), ("html=1", 200)],
)
def test_a_scripted_refusal_comes_on_single_routes_too(
    agent: MockAgent, word: str, said: int
) -> None:
    assert post(agent, "/v1/chat", word).status_code == said


def test_a_single_answer_can_be_cut(agent: MockAgent) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        post(agent, "/v1/chat", f"{QUICK} cut=0")


@pytest.mark.case("D-45")
def test_the_work_of_a_client_that_left_goes_on_blocking(mock_agent: StartMock) -> None:
    agent = mock_agent()
    blocking = "steps=6 step_ms=20 block_ms=150 tokens=1"
    with httpx.stream(
        "POST", f"{agent.url}/chat/stream", json=body_for("/chat", blocking)
    ) as answer:
        next(answer.iter_raw())
    sleep(0.3)
    longest_ns = 0
    begin_ns = now_ns()
    while now_ns() - begin_ns < 400 * NS_PER_MS:
        asked_ns = now_ns()
        httpx.get(f"{agent.url}/health")
        longest_ns = max(longest_ns, now_ns() - asked_ns)
    assert longest_ns > 80 * NS_PER_MS, "the abandoned steps no longer block"
