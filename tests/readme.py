"""The parts of the README that a program can write, and the command that writes them.

    python -m tests.readme          check, exit code 1 where something is out of date
    python -m tests.readme --write  bring the README up to date

A part stands between `<!-- NAME -->` and `<!-- /NAME -->`.
"""

# ruff: noqa: T201 - it speaks to the person who runs it

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import click
from attrs import fields

from acpbridge import config
from acpbridge.cli.main import main as commands
from acpbridge.core import phases, policy
from acpbridge.core.replies import ERROR_CODES
from acpbridge.profiles import agents, clients

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


def field_docs(module_file: str, class_name: str) -> dict[str, str]:
    """The sentence under each field of a class, by field name, on one line."""
    tree = ast.parse(Path(module_file).read_text("utf-8"))
    found = next(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == class_name)
    docs: dict[str, str] = {}
    for before, after in zip(found.body, found.body[1:], strict=False):
        names = before.targets if isinstance(before, ast.Assign) else [before]
        name = names[0].target if isinstance(names[0], ast.AnnAssign) else names[0]
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(name, ast.Name) and is_text:
            assert isinstance(after, ast.Expr)
            assert isinstance(after.value, ast.Constant)
            docs[name.id] = " ".join(str(after.value.value).split())
    return docs


def shown(name: str, value: object) -> str:
    """A default as a person writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if (
        isinstance(value, int)
        and value
        and name.endswith(("_bytes_max", "_bytes"))
        and value % policy.MIB == 0
    ):
        return f"{value} ({value // policy.MIB} MiB)"
    return f"{value:g}" if isinstance(value, float) else str(value)


def profile(cls: type, module: ModuleType) -> str:
    """The table of the fields of one kind of profile."""
    docs = field_docs(str(module.__file__), cls.__name__)
    rows = ["| key | what it is |", "|---|---|"]
    rows += [f"| `{name}` | {text} |" for name, text in docs.items()]
    return "\n".join(rows)


def numbers() -> str:
    """The table of every key of `Policy` and `Limits`."""
    rows = ["| key | default | what it is |", "|---|---|---|"]
    for cls, module in ((policy.Policy, policy), (config.Limits, config)):
        docs = field_docs(str(module.__file__), cls.__name__)
        for item in fields(cls):
            text = docs.get(item.name, "")
            assert text, f"{cls.__name__}.{item.name} has no sentence under it"
            rows.append(f"| `{item.name}` | {shown(item.name, item.default)} | {text} |")
    return "\n".join(rows)


def errors() -> str:
    """The table of our own errors."""
    rows = ["| code | kind |", "|---|---|"]
    rows += [f"| {code} | `{kind}` |" for kind, code in ERROR_CODES.items()]
    return "\n".join(rows)


def states() -> str:
    """The phases of a session, with the sentence that explains each."""
    docs = field_docs(str(phases.__file__), "Phase")
    rows = ["| state | meaning |", "|---|---|"]
    rows += [f"| {phase.name.title()} | {docs[phase.name]} |" for phase in phases.Phase]
    return "\n".join(rows)


def help_of(name: str) -> str:
    """The help of one command, as it prints it; of a group, with that of its subcommands."""
    command = commands.commands[name]
    texts = [_help(command, f"acpbridge {name}")]
    if isinstance(command, click.Group):
        texts += [_help(one, f"acpbridge {name} {sub}") for sub, one in command.commands.items()]
    return "```text\n" + "\n\n".join(texts) + "\n```"


def _help(command: click.Command, called: str) -> str:
    # As a child of the whole program's, whose settings it inherits: a command remembers the names
    # of its help option from the first time that it is asked.
    with click.Context(commands, **commands.context_settings) as parent:
        context = click.Context(command, parent, called, terminal_width=88)
        return command.get_help(context)


PARTS: dict[str, Callable[[], str]] = {
    "numbers": numbers,
    "errors": errors,
    "states": states,
    "agent keys": partial(profile, agents.AgentProfile, agents),
    "client keys": partial(profile, clients.ClientProfile, clients),
    **{f"help {name}": partial(help_of, name) for name in commands.commands},
}


def updated(text: str) -> str:
    """The README with every part as it should be."""
    for name, make in PARTS.items():
        pattern = re.compile(rf"<!-- {name} -->\n.*?<!-- /{name} -->", re.DOTALL)
        found = pattern.search(text)
        assert found, f"README.md has no part <!-- {name} -->"
        part = f"<!-- {name} -->\n{make()}\n<!-- /{name} -->"
        text = text[: found.start()] + part + text[found.end() :]
    return text


if __name__ == "__main__":
    now = README.read_text("utf-8")
    new = updated(now)
    if "--write" in sys.argv:
        README.write_text(new, "utf-8")
    elif now != new:
        print("README.md is out of date: run python -m tests.readme --write")
        sys.exit(1)
