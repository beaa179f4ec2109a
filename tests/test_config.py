from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import fields

from acpbridge.config import KEYS, Limits, Settings, load_settings
from acpbridge.core.policy import Policy
from acpbridge.errors import UsageFault
from acpbridge.profiles import AGENTS, CLIENTS


def load(
    toml: str | None = None,
    tmp_path: Path | None = None,
    environ: dict[str, str] | None = None,
    **options: Any,
) -> Settings:
    config = None
    if toml is not None:
        assert tmp_path is not None
        path = tmp_path / "c.toml"
        path.write_text(toml)
        config = str(path)
    return load_settings(options=options, environ=environ or {}, config=config)


def faults(*args: Any, **kwargs: Any) -> list[str]:
    with pytest.raises(UsageFault) as caught:
        load(*args, **kwargs)
    assert caught.value.code == "config_invalid"
    return caught.value.hint.split("\n")


def test_nothing_said_is_every_default() -> None:
    assert Settings() == load()


def test_later_sources_win(tmp_path: Path) -> None:
    """File, then environment, then options; an option that is None was not given."""
    toml = "answer_quiet_s = 1\nwait_quiet_s = 1\nempty_grace_s = 1"
    environ = {"ACPBRIDGE_WAIT_QUIET_S": "2", "ACPBRIDGE_EMPTY_GRACE_S": "2", "PATH": "/bin"}
    policy = load(toml, tmp_path, environ, empty_grace_s=3.0, answer_quiet_s=None).policy

    assert (1.0, 2.0, 3.0) == (policy.answer_quiet_s, policy.wait_quiet_s, policy.empty_grace_s)


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("breaker_deaths = 2")
    (tmp_path / "b.toml").write_text("breaker_deaths = 3")
    environ = {"ACPBRIDGE_CONFIG": str(tmp_path / "a.toml")}
    by_environ = load_settings(options={}, environ=environ)
    by_option = load_settings(options={}, environ=environ, config=str(tmp_path / "b.toml"))

    assert (2, 3) == (by_environ.policy.breaker_deaths, by_option.policy.breaker_deaths)


SAMPLES = {"float": ("0.5", "0.5", 0.5), "int": ("7", "7", 7), "bool": ("no", "false", False)}
"""Kind of a key to (text of a variable, text of a TOML value, value)."""


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        *(("policy", item.name) for item in fields(Policy)),
        *(("limits", item.name) for item in fields(Limits)),
    ],
)
def test_every_number_is_a_key_and_a_variable(owner: str, name: str, tmp_path: Path) -> None:
    key = KEYS[name]
    choice = key.choices[-1] if key.choices else ""
    text, toml, value = SAMPLES.get(key.kind, (choice, f'"{choice}"', choice))
    by_file = load(f"{name} = {toml}", tmp_path)
    by_environ = load(environ={f"ACPBRIDGE_{name.upper()}": text})

    assert value == getattr(getattr(by_file, owner), name)
    assert by_file == by_environ


@pytest.mark.parametrize("name", ["record", "log_file", "state_dir"])
def test_names_of_files(name: str, tmp_path: Path) -> None:
    """`~` is somebody's home in a file too, where no shell has looked at it."""
    settings = load(f'{name} = "~/x"', tmp_path)

    assert Path("~/x").expanduser() == getattr(settings, name)
    assert Path("y") == getattr(load_settings(options={name: "y"}, environ={}), name)


@pytest.mark.parametrize("text", ["true", "TRUE", "1", "yes", "on"])
def test_yes_has_several_names(text: str) -> None:
    assert load(environ={"ACPBRIDGE_RESTART": text}).policy.restart is True


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ('answer_quiet_s = "x"', 'answer_quiet_s = "x": expected seconds, a number of 0 or more'),
        ("answer_quiet_s = -1", "answer_quiet_s = -1: expected seconds, a number of 0 or more"),
        ("answer_quiet_s = inf", "answer_quiet_s = inf: expected seconds, a number of 0 or more"),
        ("answer_quiet_s = nan", "answer_quiet_s = nan: expected seconds, a number of 0 or more"),
        ("answer_quiet_s = true", "answer_quiet_s = True: expected seconds, a number of 0 or more"),
        ("busy_jitter = []", "busy_jitter = []: expected a number of 0 or more"),
        ("breaker_deaths = 0", "breaker_deaths = 0: expected a whole number of 1 or more"),
        ("breaker_deaths = 1.5", "breaker_deaths = 1.5: expected a whole number of 1 or more"),
        ("restart = 1", "restart = 1: expected true or false"),
        ('restart = "maybe"', 'restart = "maybe": expected true or false'),
        ('midturn = "now"', 'midturn = "now": expected one of auto, steer, queue, reject'),
        ("on_disconnect = 1", "on_disconnect = 1: expected one of stop, finish"),
        ('log_level = "loud"', 'log_level = "loud": expected one of debug, info, warning, error'),
        ('record = ""', 'record = "": expected the name of a file'),
        ("state_dir = 1", "state_dir = 1: expected the name of a file"),
        ('agent_profile = "x"', 'agent_profile = "x": expected one of ' + ", ".join(AGENTS)),
        ('client_profile = "x"', 'client_profile = "x": expected one of ' + ", ".join(CLIENTS)),
        ("anser_quiet_s = 1", "anser_quiet_s: unknown key; did you mean answer_quiet_s?"),
        ("zzz = 1", "zzz: unknown key; the README lists the keys"),
        ("agent = 1", "agent = 1: expected a table"),
    ],
)
def test_a_mistake_says_where_what_and_what_instead(
    toml: str, expected: str, tmp_path: Path
) -> None:
    assert [f"{tmp_path}/c.toml: {expected}"] == faults(toml, tmp_path)


def test_all_mistakes_of_all_sources_are_told_at_once(tmp_path: Path) -> None:
    environ = {
        "ACPBRIDGE_WAIT_QUIET_S": "soon",
        "ACPBRIDGE_BREAKER_DEATHS": "1.5",
        "ACPBRIDGE_WAIT_QUIET": "1",
        "ACPBRIDGE_FOO": "1",
    }
    told = faults("midturn = 1\nxyz_s = 2\n[client]\n", tmp_path, environ, empty_grace_s=-1.0)

    assert [
        f"{tmp_path}/c.toml: midturn = 1: expected one of auto, steer, queue, reject",
        f"{tmp_path}/c.toml: xyz_s: unknown key; the README lists the keys",
        'ACPBRIDGE_WAIT_QUIET_S = "soon": expected seconds, a number of 0 or more',
        'ACPBRIDGE_BREAKER_DEATHS = "1.5": expected a whole number of 1 or more',
        "ACPBRIDGE_WAIT_QUIET: unknown key; did you mean ACPBRIDGE_WAIT_QUIET_S?",
        "ACPBRIDGE_FOO: unknown key; the README lists the keys",
        "--empty-grace = -1.0: expected seconds, a number of 0 or more",
        f"{tmp_path}/c.toml: [client] extends a profile: name it with client_profile",
    ] == told


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    environ = {"ACPBRIDGE_CONFIG": str(tmp_path / "none.toml")}

    assert [f"{tmp_path}/none.toml: No such file or directory; name a file that can be read"] == (
        faults(environ=environ)
    )


@pytest.mark.parametrize("content", [b"a = ", b"a = '\xff'"])
def test_a_file_that_is_no_toml_is_told(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    (told,) = faults(environ={"ACPBRIDGE_CONFIG": str(tmp_path / "bad.toml")})

    assert told.startswith(f"{tmp_path}/bad.toml: no TOML in UTF-8: ")


def test_profiles_are_found_by_name() -> None:
    settings = load(agent_profile="hermes", client_profile="codeg")

    assert (AGENTS["hermes"], CLIENTS["codeg"]) == (settings.agent, settings.client)


def test_a_table_extends_the_named_profile(tmp_path: Path) -> None:
    """Lists are added to, other values replace."""
    toml = r"""
        client_profile = "codeg"
        [agent]
        receipts_queued = ['In line\. \(\d+\)']
        commands = ["ponder"]
        wedge_errors = [[-32000, "gone"]]
        busy = "fifo"
        marker_quiet_s = 2
        turns_max = 9
        refusal_means_lost = false
        load_proof = "modes"
        [client]
        answer_gap_s = 0.3
    """
    settings = load(toml, tmp_path, environ={"ACPBRIDGE_AGENT_PROFILE": "hermes"})
    hermes, agent = AGENTS["hermes"], settings.agent
    assert agent is not None
    assert settings.client is not None

    assert agent.receipts_queued == (*hermes.receipts_queued, r"In line\. \(\d+\)")
    assert agent.receipt_kind("In line. (3)") == "queued"
    assert agent.commands == hermes.commands | {"ponder"}
    assert agent.wedge_errors == (*hermes.wedge_errors, (-32000, "gone"))
    assert (agent.busy, agent.marker_quiet_s, agent.turns_max) == ("fifo", 2.0, 9)
    assert (agent.refusal_means_lost, agent.load_proof) == (False, "modes")
    assert agent.receipts_redirected == hermes.receipts_redirected
    assert settings.client.answer_gap_s == 0.3


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("receipts_queued = 'x'", 'receipts_queued = "x": expected a list'),
        ("receipts_queued = [1]", "receipts_queued = [1]: expected a list, each a text"),
        ("busy_reasons = ['a', 2]", "busy_reasons = ['a', 2]: expected a list, each a text"),
        ("wedge_errors = [[1]]", "wedge_errors = [[1]]: expected a list, each 2 values"),
        (
            "wedge_errors = [['a', 'b']]",
            "wedge_errors = [['a', 'b']]: expected a list, each a list, each a whole number",
        ),
        ("turns_max = 1.5", "turns_max = 1.5: expected a whole number"),
        ("marker_quiet_s = 'x'", 'marker_quiet_s = "x": expected a number'),
        ("turns_max = true", "turns_max = True: expected a whole number"),
        ("receipt_queued = []", "receipt_queued: unknown key; did you mean receipts_queued?"),
        ("name = 'x'", "name: unknown key; did you mean agent_names?"),
    ],
)
def test_mistakes_in_a_table(line: str, expected: str, tmp_path: Path) -> None:
    (told,) = faults(f"[agent]\n{line}", tmp_path, agent_profile="generic")
    assert f"{tmp_path}/c.toml: [agent] {expected}" == told


def test_a_table_names_its_choices(tmp_path: Path) -> None:
    (told,) = faults("[agent]\nbusy = 'sometimes'", tmp_path, agent_profile="generic")

    assert told.endswith(
        'busy = "sometimes": expected one of "fifo", "receipt", "refuses", "redirect", "aborts"'
    )


@pytest.mark.parametrize("key", ["receipts_queued", "receipts_redirected"])
def test_a_receipt_that_is_no_regular_expression_is_told(key: str, tmp_path: Path) -> None:
    """Else the core would meet it in the middle of a conversation."""
    (told,) = faults(f"[agent]\n{key} = ['(']", tmp_path, agent_profile="generic")

    assert "expected regular expressions: missing )" in told
