"""Identity: where a credential goes, where it comes from, and what is told without showing it."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.dialects import create
from loadgen.dialects.contract import Ask, Identity, Opening, Wire
from loadgen.errors import ConfigError
from loadgen.identity import IdentityPlan, check_identity, resolve_identity
from loadgen.plan import identity_plan, parse_plan
from loadgen.wire.frame import Request

SECRET = "s3cret-0f-ann"
BASIC = base64.b64encode(f"ann:{SECRET}".encode()).decode()


def plan(method: str = "bearer", **keys) -> IdentityPlan:
    return IdentityPlan.model_validate({"method": method, **keys})


def mistake(raw: dict) -> str:
    """The line that a plan whose group has the identity ``raw`` gets."""
    group = {"name": "desk", "dialect": "nat-ws", "identity": raw}
    with pytest.raises(ConfigError) as caught:
        parse_plan({"analysts": [group], "questions": {"texts": ["why?"]}}, "x.toml")
    assert SECRET not in str(caught.value)
    return str(caught.value).split("\n")[0].removeprefix("x.toml: analysts.0.identity")


def refusal(plan: IdentityPlan, number: int = 0, **environ: str) -> str:
    """The line that analyst ``number`` gets instead of a credential."""
    with pytest.raises(ConfigError) as caught:
        resolve_identity(plan, number, Wire.HTTP, environ)
    return str(caught.value)


# methods

COOKIE = {"cookie": f"nat-session={SECRET}"}
BEARER = {"authorization": f"Bearer {SECRET}"}
USER = {"username": "ann"}

ACCOUNT = {"x-nuclia-serviceaccount": f"Bearer {SECRET}"}
NUA = {"x-nuclia-nuakey": f"Bearer {SECRET}"}
METHODS = [
    # method, further keys, headers of a request, of a socket, its query, its login
    ("session", {}, COOKIE, COOKIE, {}, None),
    ("session_query", {}, COOKIE, {}, {"session": SECRET}, None),
    ("bearer", {}, BEARER, BEARER, {}, None),
    ("api_key", {}, BEARER, {}, {}, {"method": "api_key", "token": SECRET}),
    ("jwt", {}, BEARER, {}, {}, {"method": "jwt", "token": SECRET}),
    ("api_key_header", {}, {"x-api-key": SECRET}, {"x-api-key": SECRET}, {}, None),
    ("service_account", {}, ACCOUNT, ACCOUNT, {}, None),
    ("nua_key", {}, NUA, NUA, {}, None),
    (
        "basic",
        USER,
        {"authorization": f"Basic {BASIC}"},
        {},
        {},
        {"method": "basic", "username": "ann", "password": SECRET},
    ),
    (
        "basic_header",
        USER,
        {"authorization": f"Basic {BASIC}"},
        {"authorization": f"Basic {BASIC}"},
        {},
        None,
    ),
    ("header", {"header": "X-User-ID"}, {"x-user-id": SECRET}, {"x-user-id": SECRET}, {}, None),
]


@pytest.mark.parametrize(
    ("method", "keys", "request_headers", "headers", "query", "login"), METHODS
)
def test_each_method_says_it_in_its_place(
    method, keys, request_headers, headers, query, login
) -> None:
    who = plan(method, env="TOKEN", **keys)
    environ = {"TOKEN": f" {SECRET}\n"}
    secrets = (SECRET, BASIC) if keys == USER else (SECRET,)
    on_request = resolve_identity(who, 1, Wire.HTTP, environ)
    on_socket = resolve_identity(who, 1, Wire.WEBSOCKET, environ)
    assert on_request == Identity(headers=request_headers, secrets=secrets)
    assert on_socket == Identity(headers, query, login, secrets)


def test_every_method_is_in_the_table() -> None:
    known = set(IdentityPlan.model_fields["method"].annotation.__args__)
    assert {row[0] for row in METHODS} == known - {"none"}


@pytest.mark.parametrize("wire", Wire)
def test_nobody_says_nothing(wire: Wire) -> None:
    assert resolve_identity(IdentityPlan(), 0, wire, {}) == Identity()


@pytest.mark.parametrize("row", METHODS, ids=lambda row: row[0])
def test_the_dialects_carry_what_is_resolved(row) -> None:
    method, keys, on_request, headers, query, login = row
    who = plan(method, env="TOKEN", **keys)
    sse, ws = create("nat-sse"), create("nat-ws")
    ask = Ask(turn="t", conversation="c", text="why?")
    sent = sse.ask(ask, resolve_identity(who, 0, sse.wire, {"TOKEN": SECRET}))
    assert isinstance(sent, Request)
    assert on_request.items() <= sent.headers.items()
    identity = resolve_identity(who, 0, ws.wire, {"TOKEN": SECRET})
    opening = ws.upgrade(Opening(identity, "c"))
    assert opening.headers == headers
    assert opening.path == ("/websocket?session=" + SECRET if query else "/websocket")
    said = ws.login(identity)
    assert (login is None) if said is None else json.loads(said)["payload"] == login


# sources


def test_a_template_gives_each_analyst_its_own_and_is_no_secret() -> None:
    who = plan("session", template="analyst-{n}")
    found = [resolve_identity(who, n, Wire.HTTP, {}) for n in (0, 17)]
    assert [identity.headers["cookie"] for identity in found] == [
        "nat-session=analyst-0",
        "nat-session=analyst-17",
    ]
    assert {identity.secrets for identity in found} == {()}


def test_a_template_password_is_no_secret_either() -> None:
    who = plan("basic", username="ann-{n}", template="pw-{n}")
    identity = resolve_identity(who, 3, Wire.WEBSOCKET, {})
    assert identity.login == {"method": "basic", "username": "ann-3", "password": "pw-3"}
    assert identity.secrets == ()


def test_a_variable_may_have_the_analysts_number_in_its_name() -> None:
    who = plan(env="TOKEN_{n}")
    assert resolve_identity(who, 2, Wire.HTTP, {"TOKEN_2": "two"}).secrets == ("two",)


def test_a_file_holds_a_credential_and_may_be_numbered(tmp_path: Path) -> None:
    (tmp_path / "token-4").write_text(f"\ufeff{SECRET}\r\n")
    who = plan(file=str(tmp_path / "token-{n}"))
    assert resolve_identity(who, 4, Wire.HTTP, {}).secrets == (SECRET,)


def test_paths_are_relative_to_the_working_directory(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "token").write_text(SECRET)
    monkeypatch.chdir(tmp_path)
    assert resolve_identity(plan(file="token"), 0, Wire.HTTP, {}).secrets == (SECRET,)


@pytest.fixture
def analysts(tmp_path: Path) -> str:
    path = tmp_path / "analysts.csv"
    path.write_text('\ufeffuser, token ,pw\r\nann,t0,"p,0"\r\n\r\nbob,t1,"p""1"\r\n')
    return str(path)


def test_row_n_of_a_csv_is_analyst_ns(analysts: str) -> None:
    found = [resolve_identity(plan(csv=analysts), n, Wire.HTTP, {}).secrets for n in (0, 1)]
    assert found == [("t0",), ("t1",)]


def test_a_csv_may_hold_users_and_passwords(analysts: str) -> None:
    who = plan("basic", csv=analysts, column="pw", username_column="user")
    identity = resolve_identity(who, 1, Wire.WEBSOCKET, {})
    assert identity.login == {"method": "basic", "username": "bob", "password": 'p"1'}
    assert identity.secrets == ('p"1', base64.b64encode(b'bob:p"1').decode())


def test_a_csv_that_was_written_anew_is_read_anew(analysts: str) -> None:
    assert resolve_identity(plan(csv=analysts), 0, Wire.HTTP, {}).secrets == ("t0",)
    Path(analysts).write_text("token\nfresh\n")
    os.utime(analysts, ns=(1, 1))
    assert resolve_identity(plan(csv=analysts), 0, Wire.HTTP, {}).secrets == ("fresh",)


def test_a_password_may_be_of_any_letters() -> None:
    who = plan("basic_header", username="änn", env="TOKEN")
    header = resolve_identity(who, 0, Wire.HTTP, {"TOKEN": "gehëim: ja"}).headers["authorization"]
    assert base64.b64decode(header.removeprefix("Basic ")).decode() == "änn:gehëim: ja"


@pytest.mark.parametrize("method", ["bearer", "jwt", "session", "session_query", "header"])
def test_a_minted_token_goes_where_the_method_says_and_is_secret(method: str) -> None:
    who = plan(method, mint={}, **({"header": "X-Assertion"} if method == "header" else {}))
    identity = resolve_identity(who, 7, Wire.HTTP, {})
    (token,) = identity.secrets
    assert jwt.decode(token, options={"verify_signature": False})["sub"] == "analyst-7"
    assert next(iter(identity.headers.values())).endswith(token)


def test_the_clock_dates_a_minted_token() -> None:
    identity = resolve_identity(
        plan(mint={"subject": "dated"}), 0, Wire.HTTP, {}, clock=lambda: 5_000_000_000
    )
    assert jwt.decode(identity.secrets[0], options={"verify_signature": False})["iat"] == 5


# mistakes in the plan

ONE = "needs exactly one of template, env, file, csv and mint"


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ({"env": "A"}, ": env has no use while method is 'none'; name a method"),
        ({"mint": {}}, ": mint has no use while method is 'none'; name a method"),
        ({"username": "a"}, ": username has no use while method is 'none'; name a method"),
        ({"method": "jwt"}, f": method 'jwt' {ONE}, got none"),
        ({"method": "jwt", "env": "A", "file": "b"}, f": method 'jwt' {ONE}, got env and file"),
        ({"method": "jwt", "csv": "a", "mint": {}}, f": method 'jwt' {ONE}, got csv and mint"),
        (
            {"method": "bearer", "env": SECRET},
            ": env is the name of an environment variable, not what it holds",
        ),
        (
            {"method": "bearer", "template": ""},
            ".template: String should have at least 1 character",
        ),
        (
            {"method": "bearer", "env": "A", "column": "b"},
            ": column names a column of a csv; give csv too",
        ),
        (
            {"method": "basic", "env": "A", "username_column": "b"},
            ": username_column names a column of a csv; give csv too",
        ),
        (
            {"method": "basic", "env": "A"},
            ": method 'basic' needs a username, or a username_column of csv",
        ),
        (
            {"method": "basic_header", "csv": "a", "username": "a", "username_column": "b"},
            ": method 'basic_header' needs a username, or a username_column of csv",
        ),
        (
            {"method": "bearer", "env": "A", "username": "ann"},
            ": username has no use with method 'bearer'",
        ),
        (
            {"method": "header", "env": "A"},
            ": method 'header' and header, its name, need each other",
        ),
        (
            {"method": "bearer", "env": "A", "header": "X-User-ID"},
            ": method 'header' and header, its name, need each other",
        ),
        *(
            ({"method": "header", "template": "a", "header": name}, f": {line}")
            for name, line in [
                ("X User", "'X User' is not the name of a header"),
                ("X-User:", "'X-User:' is not the name of a header"),
                ("X\r\nY", r"'X\r\nY' is not the name of a header"),
                ("Content-Length", "header Content-Length: the codec sets it"),
                ("Transfer-Encoding", "header Transfer-Encoding: the codec sets it"),
                ("Connection", "header Connection is the connection's; name another one"),
                ("TE", "header TE is the connection's; name another one"),
                ("Host", "header Host is the connection's; name another one"),
                (
                    "Sec-WebSocket-Key",
                    "header Sec-WebSocket-Key is the connection's; name another one",
                ),
            ]
        ),
        (
            {"method": "api_key", "token": SECRET},
            ".token is not a key of the plan; check its spelling",
        ),
    ],
)
def test_a_mistake_in_the_plan_is_one_line(raw: dict, line: str) -> None:
    assert mistake(raw) == line


def test_the_command_line_gets_the_same_lines() -> None:
    with pytest.raises(ConfigError, match=r"^identity: method 'basic' needs a username, or"):
        identity_plan("basic", "TOKEN", None)
    assert identity_plan("basic_header", "TOKEN", "ann").username == "ann"
    assert identity_plan(None, None, None) == IdentityPlan()


# sources that have nothing fit


@pytest.mark.parametrize(
    ("keys", "value", "line"),
    [
        (
            {"env": "TOKEN"},
            None,
            "the environment variable TOKEN is not set; export it before the run",
        ),
        (
            {"env": "TOKEN"},
            " \n",
            "the environment variable TOKEN is not set; export it before the run",
        ),
        (
            {"env": "TOKEN"},
            f"{SECRET}\nb",
            "the environment variable TOKEN holds characters that no header may carry",
        ),
        (
            {"env": "TOKEN"},
            f"{SECRET}ß",
            "the environment variable TOKEN holds characters that no header may carry",
        ),
        (
            {"env": "TOKEN", "method": "session"},
            f"{SECRET};",
            "the environment variable TOKEN holds characters that no cookie may carry",
        ),
        (
            {"env": "TOKEN", "method": "session_query"},
            f"{SECRET}+",
            "the environment variable TOKEN holds characters that no ?session= may carry",
        ),
        (
            {"env": "TOKEN", "method": "basic", "username": "ann"},
            f"{SECRET}\x00",
            "the environment variable TOKEN holds characters that no password may carry",
        ),
        (
            {"env": "TOKEN", "method": "basic", "username": "a:b"},
            SECRET,
            "username holds a colon or a control character",
        ),
        ({"template": " "}, None, "template is empty"),
        ({"template": "ß-{n}"}, None, "template holds characters that no header may carry"),
    ],
)
def test_a_credential_that_is_missing_or_unfit_is_told(keys, value, line) -> None:
    who = plan(**keys)
    environ = {} if value is None else {"TOKEN": value}
    assert refusal(who, **environ) == f"identity: {line}"


FILE = "the credential file F"
CSV = "the csv file F"


@pytest.mark.parametrize(
    ("source", "content", "line"),
    [
        ("file", None, "cannot read the credential file F: No such file or directory"),
        ("file", b"\r\n", f"{FILE} is empty"),
        ("file", b"\xff" + SECRET.encode(), f"{FILE} is not UTF-8 text"),
        (
            "file",
            f"{SECRET}\n{SECRET}".encode(),
            f"{FILE} holds characters that no header may carry",
        ),
        ("csv", None, "cannot read the csv file F: No such file or directory"),
        ("csv", b"\n\n", f"{CSV} is empty; its first line names columns"),
        ("csv", b"token\n\xff", f"{CSV} is not UTF-8 text"),
        ("csv", f'token\n"{SECRET}"x'.encode(), f"{CSV} is not valid CSV"),
        ("csv", b"token\n", "F has 0 rows, analyst 1 needs one more"),
        ("csv", b"token\na\n", "F has 1 row, analyst 1 needs one more"),
        ("csv", f"{SECRET}\nb\n".encode(), "F has no column 'token': its first line must name it"),
        ("csv", b"a,token\nb,c\nd\n", "F has nothing in column 'token' for analyst 1"),
        ("csv", b"a,token\nb,c\nd, \n", "F has nothing in column 'token' for analyst 1"),
        (
            "csv",
            f"token\na\n{SECRET}ß\n".encode(),
            "column 'token' of F for analyst 1 holds characters that no header may carry",
        ),
    ],
)
def test_a_file_without_a_fit_credential_is_told(tmp_path, source, content, line) -> None:
    path = tmp_path / "F"
    if content is not None:
        path.write_bytes(content)
    said = refusal(plan(**{source: str(path)}), 1)
    assert said.replace(str(path), "F") == f"identity: {line}"


def test_a_user_of_a_csv_must_be_fit_too(tmp_path: Path) -> None:
    path = tmp_path / "F"
    path.write_text("user,token\na:b,c\n")
    who = plan("basic", csv=str(path), username_column="user")
    assert refusal(who) == (
        f"identity: column 'user' of {path} for analyst 0 holds a colon or a control character"
    )


def told(who: IdentityPlan, wire: Wire, **environ: str) -> tuple[Identity | None, str]:
    """The identity of analyst 0, or what is said instead."""
    try:
        return resolve_identity(who, 0, wire, environ), ""
    except ConfigError as error:
        return None, str(error)


@given(
    secret=st.text(st.characters(exclude_categories=("Cs",)), min_size=4).map("\u00a7%".__add__),
    row=st.sampled_from(METHODS),
    wire=st.sampled_from(Wire),
)
def test_no_refusal_ever_shows_a_credential(secret: str, row, wire: Wire) -> None:
    method, keys, *_ = row
    for text in (secret, secret[1:]):
        identity, said = told(plan(method, env="TOKEN", **keys), wire, TOKEN=text)
        assert text not in said
        assert (identity is None) == bool(said)
        if identity is not None:
            assert text.strip() in identity.secrets


@given(content=st.binary(max_size=64), column=st.sampled_from(["token", "a"]))
def test_whatever_a_csv_holds_there_is_a_credential_or_one_line(content, column) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "F"
        path.write_bytes(b"token,a\n" + content)
        identity, said = told(plan(csv=str(path), column=column), Wire.HTTP)
    assert (identity is None) == said.startswith("identity: ")
    assert "\n" not in said


# before the run


def test_the_last_analyst_is_looked_at_before_the_run(analysts: str) -> None:
    who = plan(csv=analysts)
    check_identity(who, Wire.HTTP)
    check_identity(who, Wire.HTTP, 2)
    with pytest.raises(ConfigError, match="has 2 rows, analyst 20 needs one more"):
        check_identity(who, Wire.HTTP, 21)
    with pytest.raises(ConfigError, match="TOKEN is not set"):
        check_identity(plan(env="TOKEN"), Wire.HTTP, None, {})


def test_a_plan_names_its_secrets_and_holds_none(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET * 4)
    path = str(tmp_path / "key")
    for raw in (
        {"method": "bearer", "env": "TOKEN"},
        {"method": "bearer", "mint": {"key_file": path, "scopes": ["a"], "claims": {"b": [1]}}},
    ):
        who = IdentityPlan.model_validate(raw)
        resolve_identity(who, 0, Wire.HTTP, {"TOKEN": SECRET})
        dumped = who.model_dump_json()
        assert SECRET not in dumped
        assert IdentityPlan.model_validate_json(dumped) == who
