"""The options that every command which runs an agent has, and how its command line is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

ARGUMENTS = {"ignore_unknown_options": False, "allow_interspersed_args": False}
"""The first word that is no option of ours begins the agent's command, "--" or not: clients
append arguments of the agent's (terminal-auth's `--setup`) to what they were configured with."""

_BRIDGE = (
    click.option(
        "--midturn",
        type=click.Choice(["auto", "steer", "queue", "reject"]),
        help="What to do with a prompt that meets a running turn: auto puts it into the turn where "
        "the agent can be steered, else it waits.  [default: auto]",
    ),
    click.option(
        "--restart/--no-restart",
        default=None,
        help="Start an agent that died or hangs again.  [default: restart]",
    ),
    click.option(
        "--answer-quiet",
        "answer_quiet_s",
        type=float,
        metavar="SECONDS",
        help="Silence that ends a turn to which no response of the agent can come.  [default: 60]",
    ),
    click.option(
        "--wait-quiet",
        "wait_quiet_s",
        type=float,
        metavar="SECONDS",
        help="Silence that ends background work of an agent known to queue or refuse meanwhile; "
        "for others --answer-quiet counts.  [default: 5]",
    ),
    click.option(
        "--empty-grace",
        "empty_grace_s",
        type=float,
        metavar="SECONDS",
        help="How long an empty answer is disbelieved.  [default: 0.5]",
    ),
    click.option(
        "--agent-profile",
        metavar="NAME",
        help="generic, hermes, claude, codex.  [default: what the agent calls itself]",
    ),
    click.option(
        "--client-profile",
        metavar="NAME",
        help="generic, codeg.  [default: what the client calls itself]",
    ),
    click.option(
        "--record", metavar="FILE", help="Write a tape of both sides, with the secrets taken out."
    ),
    click.option("--config", metavar="FILE", help="A TOML file.  [env: ACPBRIDGE_CONFIG]"),
    click.option(
        "--undelivered",
        type=click.Choice(["keep", "send"]),
        help="What becomes of messages that an earlier bridge took and never sent: told of, or "
        "sent before new ones.  [default: keep]",
    ),
    click.option(
        "--on-silent-receipt",
        type=click.Choice(["notify", "restart"]),
        help="What to do with an agent that acknowledges a message and then shows nothing for "
        "120 s.  [default: notify]",
    ),
    click.option(
        "--state-dir",
        metavar="DIR",
        help="Where the journal is kept.  [default: the user's state directory]",
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        help="Least weight of a log line that is written.  [default: info]",
    ),
    click.option("--log-file", metavar="FILE", help="Write the log here and not to stderr."),
)


def bridge_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a bridge, in this order."""
    for option in reversed(_BRIDGE):
        command = option(command)
    return command
