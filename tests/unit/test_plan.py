"""The plan: what a file may say, and one line for each mistake in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.dialects import DIALECTS
from loadgen.errors import ConfigError
from loadgen.plan import (
    Lognormal,
    Plan,
    check_host,
    load_plan,
    parse_plan,
    seconds_ns,
)

GROUP = {"name": "desk", "dialect": "nat-ws"}
SMALLEST = {"analysts": [GROUP], "questions": {"texts": ["why?"]}}


def _plan(**changes):
    return parse_plan(SMALLEST | changes, "analysts.toml", DIALECTS)


def _mistakes(**changes):
    with pytest.raises(ConfigError) as caught:
        _plan(**changes)
    return str(caught.value).split("\n")


def test_the_smallest_plan_has_defaults_for_the_rest():
    plan = _plan()
    assert plan.name == "analysts"
    assert plan.human.turns_per_conversation == 5
    assert plan.target.verify_tls
    assert plan.analysts[0].weight == 1
    assert plan.analysts[0].identity.method == "none"
    assert plan.script is None


def test_the_plan_of_the_scenario_is_valid():
    path = Path(__file__).parents[2] / "scenarios" / "analysts.toml"
    plan = load_plan(path, DIALECTS)
    assert [(group.dialect, group.weight) for group in plan.analysts] == [
        ("nat-sse", 60),
        ("nat-ws", 40),
    ]
    assert len(plan.question_texts(path.parent)) > 10


def test_a_duration_is_a_number_of_seconds_or_a_table():
    human = _plan(human={"think_s": 3, "reply_s": {"median": 2, "sigma": 0.1}}).human
    assert human.think_s == Lognormal(median=3, sigma=0)
    assert human.reply_s == Lognormal(median=2, sigma=0.1)
    assert human.patience_s is None


def _group(**changes):
    return {"analysts": [GROUP | changes]}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"human": {"reply_s": {"median": -2}}},
            "human.reply_s.median must be >= 0, got -2",
        ),
        ({"human": {"reply_s": -2}}, "human.reply_s.median must be >= 0, got -2"),
        ({"human": {"patience_s": -1}}, "human.patience_s.median must be >= 0, got -1"),
        (
            {"human": {"think_s": float("nan")}},
            "human.think_s.median: Input should be a finite number, got nan",
        ),
        (
            {"human": {"think_s": float("inf")}},
            "human.think_s.median: Input should be a finite number, got inf",
        ),
        (
            {"human": {"think_s": "soon"}},
            "human.think_s: Input should be a valid dictionary or instance of Lognormal,"
            " got 'soon'",
        ),
        ({"human": {"thnk_s": 3}}, "human.thnk_s is not a key of the plan; check its spelling"),
        ({"hummus": {}}, "hummus is not a key of the plan; check its spelling"),
        ({"deadlines": {"silence_s": -1}}, "deadlines.silence_s must be >= 0, got -1"),
        ({"reconnect": {"attempts": 0}}, "reconnect.attempts must be >= 1, got 0"),
        (
            {"reconnect": {"policy": "never"}},
            "reconnect.policy: Input should be 'exponential', 'fixed' or 'none', got 'never'",
        ),
        ({"failure_budget": 2}, "failure_budget must be <= 1, got 2"),
        (
            {"slo": [{"clock": "ttfv", "within_s": 0}]},
            "slo.0.within_s must be > 0, got 0",
        ),
        ({"slo": [{"clock": "ttfv"}]}, "slo.0.within_s is missing"),
        (
            {"name": "a b/c"},
            "name: String should match pattern '^[A-Za-z0-9._-]{1,64}$', got 'a b/c'",
        ),
        (
            _group(weight=0),
            "analysts: the weights sum to nothing; give at least one group a weight",
        ),
        (_group(weight=-1), "analysts.0.weight must be >= 0, got -1"),
        (
            {"analysts": [GROUP, GROUP]},
            "analysts: group names must differ, got desk, desk",
        ),
        (
            {"analysts": []},
            "analysts: Tuple should have at least 1 item after validation, not 0",
        ),
        (_group(drop_at_prompt=1.5), "analysts.0.drop_at_prompt must be <= 1, got 1.5"),
        (
            _group(dialect="smoke"),
            f"analysts.0.dialect must be one of {', '.join(sorted(DIALECTS))}, got 'smoke'",
        ),
        (
            _group(identity={"env": "A"}),
            "analysts.0.identity: env has no use while method is 'none'; name a method",
        ),
        (
            _group(identity={"method": "api_key", "token": "s3cret"}),
            "analysts.0.identity.token is not a key of the plan; check its spelling",
        ),
        (
            _group(identity={"method": "jwt", "mint": {"algorithm": "none"}}),
            "analysts.0.identity.mint.algorithm: Input should be 'HS256', 'HS384', 'HS512',"
            " 'RS256', 'RS384', 'RS512' or 'ES256', got 'none'",
        ),
        ({"questions": {}}, "questions: needs either file or texts"),
        (
            {"questions": {"file": "a", "texts": ["b"]}},
            "questions: needs either file or texts",
        ),
        (
            {"script": {"prompt_share": 0.2, "prompt_kinds": []}},
            "script: prompt_share needs at least one of prompt_kinds",
        ),
        (
            {"target": {"host": "ftp://somewhere"}},
            "target: host must be http://NAME[:PORT] or https://NAME[:PORT], got 'ftp://somewhere'",
        ),
    ],
)
def test_a_mistake_is_one_line_that_says_where_and_what(changes, line):
    first, *others = _mistakes(**changes)
    assert first == f"analysts.toml: {line}"
    assert all(other.startswith("analysts.toml: ") for other in others)


def test_all_mistakes_are_told_at_once():
    lines = _mistakes(
        human={"reply_s": {"median": -2}, "coffee": 1},
        deadlines={"turn_s": -5},
        analysts=[GROUP | {"weight": 0}, {"name": "x", "dialect": "smoke", "weight": 0}],
        slo=[{"clock": "ttfx", "within_s": 1}],
    )
    assert [line.removeprefix("analysts.toml: ").partition(" ")[0] for line in lines] == [
        "deadlines.turn_s",
        "human.reply_s.median",
        "human.coffee",
        "analysts:",
        "slo.0.clock:",
        "analysts.1.dialect",
    ]


def test_a_plan_that_is_no_table_is_told_so():
    with pytest.raises(ConfigError, match=r"^x\.toml: analysts is missing\nx\.toml: questions is"):
        parse_plan({}, "x.toml", DIALECTS)


# files


def test_a_file_is_read_and_named_in_its_mistakes(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('questions = { texts = ["why?"] }\n[[analysts]]\nname = "a"\ndialect = "x"\n')
    with pytest.raises(ConfigError, match=r"^mine\.toml: analysts\.0\.dialect must be one of"):
        load_plan(path, DIALECTS)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "no such plan file; give one with --plan"),
        (b"seed = = 1", "not valid TOML: Invalid value"),
        (b"name = '\xff'", "cannot read the plan: 'utf-8' codec"),
        ("folder", "cannot read the plan: [Errno 21] Is a directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, content, line):
    path = tmp_path / "mine.toml"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_plan(path)
    assert str(caught.value).startswith(f"{path}: {line}")
    assert "\n" not in str(caught.value)


def test_a_file_may_begin_with_the_mark_that_editors_on_windows_put_there(tmp_path):
    path = tmp_path / "mine.toml"
    text = (
        'seed = 5\nquestions.texts = ["why?"]\nanalysts = [{ name = "a", dialect = "nat-sse" }]\n'
    )
    path.write_text(text, encoding="utf-8-sig")
    assert load_plan(path).seed == 5


def test_questions_come_a_line_each_without_blanks_and_comments(tmp_path):
    (tmp_path / "q.txt").write_text("# about cats\n\n  why?  \nhow?\n")
    plan = _plan(questions={"file": "q.txt"})
    assert plan.question_texts(tmp_path) == ("why?", "how?")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "cannot read .*q.txt: .*No such file"),
        (b"# nothing\n\n", "holds no question; write one a line"),
        (b"\xff\xfe", "cannot read .*q.txt: 'utf-8'"),
    ],
)
def test_a_question_file_without_questions_is_a_mistake(tmp_path, content, what):
    if content is not None:
        (tmp_path / "q.txt").write_bytes(content)
    with pytest.raises(ConfigError, match=f"^questions.file: .*{what}"):
        _plan(questions={"file": "q.txt"}).question_texts(tmp_path)


# hosts


@pytest.mark.parametrize(
    ("host", "kept"),
    [
        ("http://a", "http://a"),
        ("https://a.example:8443/", "https://a.example:8443"),
        ("http://[::1]:80", "http://[::1]:80"),
        ("http://a/prefix/", "http://a/prefix"),
    ],
)
def test_a_good_host_is_kept_without_its_last_slash(host, kept):
    assert check_host(host) == kept


@pytest.mark.parametrize(
    ("host", "what"),
    [
        ("a:8000", "must be http://NAME"),
        ("", "must be http://NAME"),
        ("http://", "must be http://NAME"),
        ("ws://a", "must be http://NAME"),
        ("http://a:port", "port that is no number from 0 to 65535"),
        ("http://a:70000", "port that is no number from 0 to 65535"),
        ("http://a?x=1", "must not hold a query"),
        ("http://a#x", "must not hold a query"),
        ("http://[::1", "host is no URL"),
    ],
)
def test_a_bad_host_says_what_is_wrong_with_it(host, what):
    with pytest.raises(ValueError, match=what):
        check_host(host)


@pytest.mark.parametrize("host", ["http://ann:pw1234@a", "ftp://ann:pw1234@a"])
def test_credentials_in_a_host_are_refused_and_not_repeated(host):
    with pytest.raises(ValueError, match="must not hold credentials") as caught:
        check_host(host)
    assert "pw1234" not in str(caught.value)
    lines = _mistakes(target={"host": host})
    assert "pw1234" not in str(lines)


# fingerprint


def test_the_fingerprint_is_of_the_load_and_not_of_the_place():
    plan = _plan()
    moved = _plan(target={"host": "http://elsewhere"})
    heavier = _plan(human={"think_s": 1})
    assert plan.hash == moved.hash != heavier.hash
    elsewhere = plan.analysts[0].model_copy(update={"host": "http://b:1"})
    assert plan.model_copy(update={"analysts": (elsewhere, *plan.analysts[1:])}).hash == plan.hash
    assert Plan.model_validate(plan.model_dump(mode="json")).hash == plan.hash


@pytest.mark.parametrize(("seconds", "ns"), [(0, 0), (0.1, 100_000_000), (1.5, 1_500_000_000)])
def test_seconds_are_whole_nanoseconds(seconds, ns):
    assert seconds_ns(seconds) == ns
