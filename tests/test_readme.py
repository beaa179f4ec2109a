"""The README is tested: what it says exists, and what exists is said."""

from __future__ import annotations

import re
import tomllib

import click
import pytest

from acpbridge.cli.main import main as commands
from acpbridge.config import KEYS, load_settings
from acpbridge.core.replies import ERROR_CODES
from tests.readme import README, ROOT, updated

TEXT = README.read_text("utf-8")


def every(command: click.Command) -> list[click.Command]:
    """A command, and all below it."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return [command, *(one for sub in below for one in every(sub))]


def options() -> list[str]:
    """Every long option of every command."""
    return sorted(
        {
            option
            for command in every(commands)
            for parameter in command.params
            if isinstance(parameter, click.Option) and not parameter.hidden
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("--")
        }
    )


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_parts_that_a_program_writes_are_up_to_date() -> None:
    assert updated(TEXT) == TEXT, "run python -m tests.readme --write"


@pytest.mark.parametrize("option", options())
def test_every_option_is_in_the_readme(option: str) -> None:
    assert option in TEXT


def test_every_option_in_the_readme_exists() -> None:
    """Options of other programs stand only behind a `--` of ours or are named here."""
    theirs = {"--agent", "--dist", "--write", "--setup", "--steers"}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT))

    assert named - theirs <= {*options(), "--help"}


@pytest.mark.parametrize("kind", ERROR_CODES)
def test_every_error_kind_is_explained(kind: str) -> None:
    assert TEXT.count(f"`{kind}`") >= 2, "in the table, and in a sentence"


@pytest.mark.parametrize("number", range(1, 11))
def test_every_invariant_is_in_the_readme(number: int) -> None:
    assert re.search(rf"^\| I{number} \|", TEXT, re.MULTILINE)


def test_configuration_examples_are_understood() -> None:
    examples = blocks("toml")
    assert examples
    for example in examples:
        document = tomllib.loads(example)
        assert set(document) <= {*KEYS, "agent", "client"}


def test_a_configuration_example_loads(tmp_path: object) -> None:
    from pathlib import Path  # noqa: PLC0415 - only this test writes

    path = Path(str(tmp_path)) / "acpbridge.toml"
    path.write_text(blocks("toml")[0], "utf-8")

    settings = load_settings(options={}, environ={}, config=str(path))

    assert settings.agent is not None


def test_the_files_that_it_names_exist() -> None:
    for name in re.findall(r"`((?:\.ci|tests|fixtures|acpbridge)/[\w./-]*)`", TEXT):
        assert (ROOT / name).exists(), name


def test_the_two_commands_are_those_that_ci_runs() -> None:
    main_job, tests = blocks("sh")[:2]
    ci = (ROOT / ".ci" / "run").read_text("utf-8")

    assert tests.strip() in ci
    assert main_job.strip() in ci
    assert tests.strip() == ci.strip().splitlines()[-1]
    for command in blocks("sh"):
        assert not command.startswith(".ci/install &&") or command.strip() in ci
