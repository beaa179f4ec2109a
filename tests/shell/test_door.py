from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.errors import UsageFault
from acpbridge.shell.door import (
    TOKEN_BYTES_MAX,
    TOKEN_BYTES_MIN,
    Bind,
    Refused,
    named_origins,
    own_hosts,
    parse_bind,
    read_token_digest,
    refusal,
)
from tests.shell.clients import TOKEN, rules_for

if TYPE_CHECKING:
    from pathlib import Path

RULES = rules_for(8137, b"https://app.example")
HONEST = ((b"host", b"127.0.0.1:8137"), (b"authorization", b"Bearer " + TOKEN))
SECRET = b"sent-by-the-peer"


def status(
    *headers: tuple[bytes, bytes], method: bytes = b"GET", target: bytes = b"/acp"
) -> int | None:
    """What the door says; None where it lets in."""
    verdict = refusal(method, target, headers, RULES)
    return None if verdict is None else verdict.status


def test_an_honest_client_is_let_in() -> None:
    assert status(*HONEST) is None
    assert status((b"host", b"LocalHost:8137"), (b"authorization", b"bearer  " + TOKEN)) is None
    assert status(*HONEST, (b"origin", b"https://App.example")) is None


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [b"attacker.example:8137"],
        [b"127.0.0.1"],
        [b"127.0.0.1:8138"],
        [b"127.0.0.1:8137", b"127.0.0.1:8137"],
        [b"127.0.0.1:8137.attacker.example"],
        [b""],
    ],
)
def test_a_rebinding_host_is_refused(hosts: list[bytes]) -> None:
    """Field case 124: the browser believes that an attacker's name is at 127.0.0.1."""
    assert 403 == status(HONEST[1], *((b"host", host) for host in hosts))


@pytest.mark.parametrize(
    "origins",
    [
        [b"https://evil.example"],
        [b"null"],
        [b""],
        [b"http://app.example"],
        [b"https://app.example.evil.example"],
        [b"https://app.example", b"https://evil.example"],
    ],
)
def test_a_web_page_is_refused(origins: list[bytes]) -> None:
    """Field case 123; the right token does not help it."""
    assert 403 == status(*HONEST, *((b"origin", origin) for origin in origins))


@pytest.mark.parametrize(
    "values",
    [
        [],
        [b"Bearer " + TOKEN[:-1]],
        [b"Bearer " + TOKEN + b"x"],
        [b"Bearer " + TOKEN.upper()],
        [b"Bearer"],
        [b"Bearer "],
        [b"Basic " + TOKEN],
        [TOKEN],
        [b"Bearer " + TOKEN, b"Bearer " + TOKEN],
    ],
)
def test_a_wrong_token_is_refused(values: list[bytes]) -> None:
    assert 401 == status(HONEST[0], *((b"authorization", value) for value in values))


@pytest.mark.parametrize("query", [b"?", b"?token=" + TOKEN, b"?x=1"])
def test_a_query_string_is_refused_even_with_the_right_header(query: bytes) -> None:
    """A URL with a token in it is in somebody's log already."""
    assert 403 == status(*HONEST, target=b"/acp" + query)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"POST", b"/acp"),
        (b"get", b"/acp"),
        (b"GET", b"/"),
        (b"GET", b"/acp/"),
        (b"GET", b"/ACP"),
        (b"GET", b"/%61cp"),
        (b"GET", b"//acp"),
        (b"GET", b"http://127.0.0.1:8137/acp"),
        (b"GET", b"/other?token=" + TOKEN),
    ],
)
def test_only_get_acp_is_there(method: bytes, target: bytes) -> None:
    assert 404 == status(*HONEST, method=method, target=target)


@given(
    headers=st.lists(
        st.tuples(
            st.sampled_from([b"host", b"origin", b"authorization", b"x"]),
            st.sampled_from([SECRET, b"Bearer " + SECRET, b"127.0.0.1:8137", b"\xff"]),
        )
    ),
    target=st.sampled_from([b"/acp", b"/acp?" + SECRET, b"/" + SECRET]),
)
def test_nobody_comes_in_without_the_token_and_no_reason_repeats_what_was_sent(
    headers: list[tuple[bytes, bytes]], target: bytes
) -> None:
    verdict = refusal(b"GET", target, headers, RULES)

    assert isinstance(verdict, Refused)
    assert verdict.status in {401, 403, 404}
    assert SECRET.decode() not in verdict.reason
    assert verdict.reason.isascii()
    assert verdict.reason.isprintable()


def test_the_rules_cannot_be_printed() -> None:
    text = repr(RULES)

    assert repr(RULES.token_digest) not in text
    assert TOKEN.decode() not in text


def test_own_hosts_have_their_port_unless_it_is_the_usual_one() -> None:
    assert {b"127.0.0.1:8137", b"localhost:8137", b"[::1]:8137"} == RULES.hosts
    assert own_hosts(Bind("::1", 9)) == {b"127.0.0.1:9", b"localhost:9", b"[::1]:9"}
    assert b"localhost" in own_hosts(Bind("127.0.0.1", 80))
    assert own_hosts(Bind("192.0.2.1", 9), ["Bridge.Example"]) == {
        b"192.0.2.1:9",
        b"bridge.example",
    }


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("127.0.0.1:8137", Bind("127.0.0.1", 8137)),
        ("127.8.9.1:0", Bind("127.8.9.1", 0)),
        ("[::1]:65535", Bind("::1", 65535)),
        ("LOCALHOST:1", Bind("127.0.0.1", 1)),
    ],
)
def test_a_loopback_address_can_be_listened_on(text: str, bind: Bind) -> None:
    assert bind == parse_bind(text)


@pytest.mark.parametrize("text", ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[2001:db8::1]:1"])
def test_others_reach_us_only_behind_a_tls_proxy(text: str) -> None:
    """Field case 125."""
    with pytest.raises(UsageFault) as caught:
        parse_bind(text)

    assert "bind_not_loopback" == caught.value.code
    assert 1 == parse_bind(text, behind_tls_proxy=True).port


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:²",
        "::1:1",
        "[127.0.0.1]:1",
        "[::1:1",
        "example.org:1",
        "127.1:1",
        "127.0.0.1:1 ",
    ],
)
def test_what_is_no_address_and_port_is_refused(text: str) -> None:
    with pytest.raises(UsageFault) as caught:
        parse_bind(text, behind_tls_proxy=True)

    assert "bind_invalid" == caught.value.code


def token_file(path: Path, token: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(token)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("token", [TOKEN, b" " + TOKEN + b"\r\n", b"a" * TOKEN_BYTES_MIN])
def test_the_token_is_read_from_a_private_file(tmp_path: Path, token: bytes) -> None:
    digest = read_token_digest(token_file(tmp_path / "token", token))

    assert hashlib.sha256(token.strip()).digest() == digest


def test_a_token_at_its_longest_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    path = token_file(tmp_path / "token", b"a" * TOKEN_BYTES_MAX)
    assert 32 == len(read_token_digest(path))

    with pytest.raises(UsageFault):
        read_token_digest(token_file(path, b"a" * (TOKEN_BYTES_MAX + 1)))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o610, 0o602])
def test_a_token_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageFault) as caught:
        read_token_digest(token_file(tmp_path / "token", TOKEN, mode))

    assert "token_file_open" == caught.value.code


@pytest.mark.parametrize(
    "token",
    [b"", b"  \n", b"short", b"a" * (TOKEN_BYTES_MIN - 1), TOKEN + b"\n" + TOKEN, b"\xff" * 20],
)
def test_what_is_no_token_is_refused_and_not_repeated(tmp_path: Path, token: bytes) -> None:
    with pytest.raises(UsageFault) as caught:
        read_token_digest(token_file(tmp_path / "token", token))

    assert "token_invalid" == caught.value.code
    assert TOKEN.decode() not in str(caught.value)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """A FIFO would hold the start up for ever."""
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("fifo", "folder", "missing"):
        with pytest.raises(UsageFault) as caught:
            read_token_digest(tmp_path / name)

        assert "token_file_unusable" == caught.value.code


def test_an_origin_is_named_as_browsers_send_it() -> None:
    named = named_origins(["https://App.example", "http://[::1]:3000", "app-x://page", "null"])
    assert {b"https://app.example", b"http://[::1]:3000", b"app-x://page", b"null"} == named


@pytest.mark.parametrize("text", ["app.example", "https://app.example/", "https://", "*", ""])
def test_what_no_browser_sends_as_an_origin_is_refused(text: str) -> None:
    with pytest.raises(UsageFault) as caught:
        named_origins([text])

    assert "origin_invalid" == caught.value.code
    assert repr(text) in caught.value.hint
