"""The shape of the tree: sizes, floors, and words that have no business in it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.pathlib import cleanup_numbered_dir, create_cleanup_lock

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("wire", "profiles", "core", "store", "shell", "cli")
FILE_LINES_MAX = 399
FUNCTION_LINES_MAX = 59
FLOOR_README_LINES_MAX = 10
TOP_LEVEL = {"acpbridge", "tests", "fixtures", "pyproject.toml", "Dockerfile", "README.md"}

# Joined here, so that this file does not contain what it forbids.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("deb", "debian", "org"),
    )
)
BANNED = {
    "a machine path": re.compile(r"(?<![\w.-])/(?:root|work|workspaces|Users)/"),
    "a registry host": re.compile("|".join(map(re.escape, REGISTRY_HOSTS))),
}
SCRIPTED_PEERS = {
    Path("tests/hermes/model.py"),
    Path("tests/hermes/scripted_requests.py"),
}
"""Programs that play a peer: silence of a written length is a step of their scripts."""
BANNED_IN_TESTS = {
    "a sleep": re.compile(
        r"\b(?:time|trio|asyncio|anyio)\.sleep\("
        r"|\bfrom (?:time|trio|asyncio|anyio) import [^\n]*\bsleep\b"
    ),
}


def tree() -> list[Path]:
    """Every file that is, or is about to be, committed; relative to the root."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        names = [Path(os.fsdecode(name)) for name in listed.stdout.split(b"\0") if name]
        return sorted({name for name in names if (ROOT / name).is_file()})
    return sorted(walk())


def walk() -> Iterator[Path]:
    """The same without git, as in an unpacked source archive."""
    for folder, folders, files in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT)
        folders[:] = [n for n in folders if n == ".ci" or (n[0] != "." and n != "__pycache__")]
        yield from (here / name for name in files)


TREE = tree()
PYTHON = [path for path in TREE if path.suffix == ".py"]


def violations(patterns: dict[str, re.Pattern[str]], text: str) -> list[str]:
    """What of `patterns` is in `text`, as "line number: what (the words)"."""
    return [
        f"{number}: {what} ({found.group()})"
        for number, line in enumerate(text.splitlines(), start=1)
        for what, pattern in patterns.items()
        if (found := pattern.search(line))
    ]


def long_functions(source: str) -> list[str]:
    """Functions of FUNCTION_LINES_MAX + 1 lines or more, from `def` to their last line."""
    return [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]


def test_the_tree_is_seen() -> None:
    """Without this, an empty listing would pass everything below."""
    assert {Path("pyproject.toml"), Path(".ci/run"), Path("tests/test_shape.py")} <= set(TREE)
    assert Path("acpbridge/errors.py") in PYTHON


@pytest.mark.parametrize("path", PYTHON, ids=str)
def test_files_and_functions_are_short(path: Path) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")

    assert len(source.splitlines()) <= FILE_LINES_MAX
    assert [] == long_functions(source)


@pytest.mark.parametrize("floor", FLOORS)
def test_every_floor_says_its_rule(floor: str) -> None:
    readme = ROOT / "acpbridge" / floor / "README.md"

    assert 0 < len(readme.read_text(encoding="utf-8").splitlines()) <= FLOOR_README_LINES_MAX


def test_every_package_is_a_floor() -> None:
    folders = {path.parts[1] for path in PYTHON if path.parts[0] == "acpbridge" and path.parts[2:]}

    assert set(FLOORS) == folders


def test_nothing_names_the_machine_that_it_was_made_on() -> None:
    found = {
        str(path): hits
        for path in TREE
        if (hits := violations(BANNED, (ROOT / path).read_text("utf-8", errors="replace")))
    }

    assert {} == found


def test_no_test_sleeps() -> None:
    """A sleep is either too short, and the test is flaky, or too long, and CI is slow."""
    found = {
        str(path): hits
        for path in PYTHON
        if path.parts[0] == "tests"
        and path not in SCRIPTED_PEERS
        and (hits := violations(BANNED_IN_TESTS, (ROOT / path).read_text(encoding="utf-8")))
    }

    assert {} == found


def test_the_top_level_stays_small() -> None:
    top = {path.parts[0] for path in TREE}

    assert set() == {name for name in top if name[0] != "."} - TOP_LEVEL


def test_ci_ends_with_the_test_command_of_the_readme() -> None:
    """So that what people are told to run is what CI ran."""
    last = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1]

    assert last.endswith("pytest -n 2 --dist worksteal")
    assert last in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()


def test_ci_overlooks_no_failure() -> None:
    """`set -e` does not end a script where a command fails that `&&` follows: brackets do."""
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    joined = [line for line in lines[:-1] if re.match(r"[^#\s].* (?:&&|\|\|) ", line)]
    assert len(joined) >= 2
    assert [] == [line for line in joined if not re.fullmatch(r"\(.*\)( &)?", line)]


def test_the_scripts_can_be_run() -> None:
    scripts = [path for path in TREE if path.parts[0] == ".ci"]

    names = {"clients", "hermes", "install", "run", "steer", "venv"}
    assert names == {path.name for path in scripts}
    assert all(os.access(ROOT / path, os.X_OK) for path in scripts)


def test_two_suites_may_tidy_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of them removes the other one locks, to remove it too; neither fails by it."""
    rmdir = os.rmdir

    def locked_before(path: Path | str, **options: Any) -> None:
        if Path(path).name.startswith("garbage-"):
            create_cleanup_lock(Path(path))
        rmdir(path, **options)

    older, newer = tmp_path / "pytest-1", tmp_path / "pytest-2"
    older.mkdir()
    newer.mkdir()
    monkeypatch.setattr(os, "rmdir", locked_before)
    cleanup_numbered_dir(tmp_path, "pytest-", 1, consider_lock_dead_if_created_before=0.0)

    left, kept = sorted(tmp_path.iterdir())
    assert left.name.startswith("garbage-")
    assert kept == newer


def test_every_runtime_dependency_has_a_ceiling() -> None:
    """A new major version is let in on purpose and not by surprise."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["dependencies"]
    assert [] == [name for name in project["dependencies"] if not re.search(r">=[^,]+,<", name)]


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("see /" + "root/notes", 1),
        ("cd /" + "work/main", 1),
        ("/workspace/a.txt and a/work/b", 0),
        ("https://" + REGISTRY_HOSTS[0], 1),
        ("plain words", 0),
    ],
)
def test_the_word_list_bites(text: str, hits: int) -> None:
    assert hits == len(violations(BANNED, text))


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("await trio." + "sleep(1)", 1),
        ("from " + "time import monotonic, sleep", 1),
        ("await trio.sleep_forever()", 0),
        ("argv = ['sleep', '3']", 0),
    ],
)
def test_the_sleep_list_bites(text: str, hits: int) -> None:
    assert hits == len(violations(BANNED_IN_TESTS, text))


@pytest.mark.parametrize(("body", "found"), [(58, []), (59, ["f: 60 lines"])])
def test_the_function_limit_bites(body: int, found: list[str]) -> None:
    assert found == long_functions("def f():\n" + "    x = 1\n" * body)
