from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.store.scrub import SCRUBBED, scrub, scrub_line

S = SCRUBBED


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # Whole members, whatever their case and form, keep their shape.
        (
            {"mcpServers": [{"name": "m", "command": "/bin/m", "args": ["--fast"], "env": []}]},
            {"mcpServers": [{"name": S, "command": S, "args": [S], "env": []}]},
        ),
        ({"mcpServers": []}, {"mcpServers": []}),
        ({"mcp_servers": ["a"]}, {"mcp_servers": [S]}),
        ({"env": {"HOME": "/root", "PORT": 80}}, {"env": {"HOME": S, "PORT": S}}),
        ({"env": [{"name": "A", "value": "b"}]}, {"env": [{"name": S, "value": S}]}),
        ({"env": "A=b"}, {"env": S}),
        ({"env": None, "headers": {}}, {"env": None, "headers": {}}),
        ({"Headers": {"X-Any": "v"}}, {"Headers": {"X-Any": S}}),
        ({"a": [{"b": {"env": {"C": "d"}}}]}, {"a": [{"b": {"env": {"C": S}}}]}),
        # Names that look like a secret.
        ({"token": "t", "authToken": "t"}, {"token": S, "authToken": S}),
        (
            {"apiKey": "k", "api_key": "k", "API-KEY": "k"},
            {"apiKey": S, "api_key": S, "API-KEY": S},
        ),
        ({"client_secret": "s", "PASSWORD": "p"}, {"client_secret": S, "PASSWORD": S}),
        ({"passwd": "p", "passphrase": "p"}, {"passwd": S, "passphrase": S}),
        ({"Authorization": "Bearer x"}, {"Authorization": S}),
        ({"credentials": {"user": "u", "pin": 12}}, {"credentials": {"user": S, "pin": S}}),
        ({"privateKey": "k", "Set-Cookie": "c"}, {"privateKey": S, "Set-Cookie": S}),
        ({"password": ""}, {"password": ""}),
        ({"password": 1234}, {"password": S}),
        ({"hasToken": True, "token": None}, {"hasToken": True, "token": None}),
        # Counts of tokens are what the tapes are for.
        ({"usage": {"inputTokens": 5}}, {"usage": {"inputTokens": 5}}),
        (
            {"token_count": {"totalTokens": 1, "t": "x"}},
            {"token_count": {"totalTokens": 1, "t": S}},
        ),
        # A pair of name and value, as ACP writes variables and headers.
        ({"name": "GH_TOKEN", "value": "t"}, {"name": "GH_TOKEN", "value": S}),
        ({"name": "LANG", "value": "C"}, {"name": "LANG", "value": "C"}),
        # Arguments.
        (["--token", "t", "--fast"], ["--token", S, "--fast"]),
        (["--api-key=k", "x"], [f"--api-key={S}", "x"]),
        (["--token", {"a": "b"}], ["--token", {"a": "b"}]),
        (["--features", "a,b"], ["--features", "a,b"]),
        # Texts.
        ("run --token abc now", f"run --token {S} now"),
        ("GET /x?api_key=abc&y=1", f"GET /x?api_key={S}&y=1"),
        ('{"password": "abc"}', f'{{"password": "{S}"}}'),
        ('{\\"secret\\":\\"abc\\"}', f'{{\\"secret\\":\\"{S}\\"}}'),
        ("Authorization: Bearer abcdefgh.ij", f"Authorization: Bearer {S}"),
        ("authorization=Basic abc", f"authorization=Basic {S}"),
        ("bearer abcdefgh12345678", f"bearer {S}"),
        ("git clone https://me:pw@host/x", f"git clone https://me:{S}@host/x"),
        ("key sk-proj-" + "a1" * 10, f"key {S}"),
        ("ghp_abcdefghijklmnop1234", S),
        # What is none.
        ("Queued for the next turn. (1 queued)", "Queued for the next turn. (1 queued)"),
        ("We used 5 tokens: fine", "We used 5 tokens: fine"),
        ("https://host/path", "https://host/path"),
        (5, 5),
        (None, None),
        ({"text": "hello", "n": [1, 2.5, True]}, {"text": "hello", "n": [1, 2.5, True]}),
    ],
)
def test_secrets_go_and_the_rest_stays(value: Any, expected: Any) -> None:
    assert expected == scrub(value)


def test_the_value_itself_is_left_alone() -> None:
    """The frame is on its way to the agent, which needs its secrets."""
    value = {"env": {"A": "b"}, "args": ["--token", "t"]}
    scrub(value)

    assert value == {"env": {"A": "b"}, "args": ["--token", "t"]}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[log] started", "[log] started"),
        ("[log] token=abc ok", f"[log] token={S} ok"),
        ('{"env":{"A":"b"},"n":1e400}', f"{S} 27 characters"),
        ("{'mcpServers': [x]", f"{S} 18 characters"),
        ('{"mcpServers":[],"n":1e400}', '{"mcpServers":[],"n":1e400}'),
    ],
)
def test_a_line_that_is_no_object(line: str, expected: str) -> None:
    """A member that cannot be cut out safely takes the line with it."""
    assert expected == scrub_line(line)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "text", "update"]), children, max_size=3)
    ),
    max_leaves=8,
)


@given(
    value=json_values,
    path=st.lists(st.sampled_from(["a", "params", "_meta", 0]), max_size=4),
    key=st.sampled_from(["env", "mcpServers", "headers", "accessToken", "x-api-key", "secret"]),
    secret=st.sampled_from(["hunter2", ["hunter2"], {"n": "hunter2"}, [{"value": "hunter2"}]]),
)
def test_no_depth_hides_a_secret(value: Any, path: list[Any], key: str, secret: Any) -> None:
    whole: Any = {key: secret, "beside": value}
    for step in path:
        whole = [whole] if step == 0 else {step: whole}

    assert "hunter2" not in json.dumps(scrub(whole))


@given(value=json_values)
def test_scrubbing_twice_is_scrubbing_once(value: Any) -> None:
    once = scrub(value)

    assert once == scrub(once)
