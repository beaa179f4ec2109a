"""The command line: parse, call one function, exit. trio is imported inside commands only.

stdout belongs to the protocol, or to the report that a command was asked for: every other word
for people goes to stderr.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, NoReturn

import click

from acpbridge import __version__
from acpbridge.cli.demo import demo
from acpbridge.cli.diagnose import diagnose
from acpbridge.cli.prompts import prompts
from acpbridge.cli.replay import replay
from acpbridge.cli.shim import shim
from acpbridge.cli.status import status
from acpbridge.errors import AcpBridgeError, AgentFault, UsageFault

_ARGUMENTS = {"ignore_unknown_options": False, "allow_interspersed_args": False}
"""The first word that is no option of ours begins the agent's command, "--" or not: clients
append arguments of the agent's (terminal-auth's `--setup`) to what they were configured with."""


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AcpBridgeError as fault:
            # One line for people, whatever the traceback would have said.
            click.echo(f"acpbridge: {fault}", err=True)
            ctx.exit(fault.exit_code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="acpbridge", message="%(prog)s %(version)s")
def main() -> None:
    """An honest bridge between an ACP client and an ACP agent.

    Example: configure `acpbridge run -- hermes acp` as the agent command of your client.
    """


main.add_command(demo)
main.add_command(diagnose)
main.add_command(prompts)
main.add_command(replay)
main.add_command(shim)
main.add_command(status)


@main.command(context_settings=_ARGUMENTS)
@click.option(
    "--midturn",
    type=click.Choice(["auto", "steer", "queue", "reject"]),
    help="What to do with a prompt that meets a running turn: auto puts it into the turn where the "
    "agent can be steered, else it waits.  [default: auto]",
)
@click.option(
    "--restart/--no-restart",
    default=None,
    help="Start an agent that died or hangs again.  [default: restart]",
)
@click.option(
    "--answer-quiet",
    "answer_quiet_s",
    type=float,
    metavar="SECONDS",
    help="Silence that ends a turn to which no response of the agent can come.  [default: 60]",
)
@click.option(
    "--wait-quiet",
    "wait_quiet_s",
    type=float,
    metavar="SECONDS",
    help="Silence that ends background work of an agent known to queue or refuse meanwhile; "
    "for others --answer-quiet counts.  [default: 5]",
)
@click.option(
    "--empty-grace",
    "empty_grace_s",
    type=float,
    metavar="SECONDS",
    help="How long an empty answer is disbelieved.  [default: 0.5]",
)
@click.option(
    "--agent-profile",
    metavar="NAME",
    help="generic, hermes, claude, codex.  [default: what the agent calls itself]",
)
@click.option(
    "--client-profile",
    metavar="NAME",
    help="generic, codeg.  [default: what the client calls itself]",
)
@click.option(
    "--on-disconnect",
    type=click.Choice(["stop", "finish"]),
    help="What becomes of a running turn when the client leaves.  [default: stop]",
)
@click.option(
    "--record", metavar="FILE", help="Write a tape of both sides, with the secrets taken out."
)
@click.option("--config", metavar="FILE", help="A TOML file.  [env: ACPBRIDGE_CONFIG]")
@click.option(
    "--undelivered",
    type=click.Choice(["keep", "send"]),
    help="What becomes of messages that an earlier bridge took and never sent: told of, or sent "
    "before new ones.  [default: keep]",
)
@click.option(
    "--on-silent-receipt",
    type=click.Choice(["notify", "restart"]),
    help="What to do with an agent that acknowledges a message and then shows nothing for 120 s.  "
    "[default: notify]",
)
@click.option(
    "--state-dir",
    metavar="DIR",
    help="Where the journal is kept.  [default: the user's state directory]",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Least weight of a log line that is written.  [default: info]",
)
@click.option("--log-file", metavar="FILE", help="Write the log here and not to stderr.")
@click.argument("agent", nargs=-1, type=click.UNPROCESSED, metavar="-- AGENT...")
def run(agent: tuple[str, ...], config: str | None, **options: Any) -> NoReturn:
    """Stand in front of an agent: speak ACP on stdin and stdout, and run AGENT behind it.

    Example: acpbridge run --agent-profile hermes -- hermes acp

    Every option, and every other number of the bridge, is also a key of the TOML file and a
    variable: --answer-quiet 30 is answer_quiet_s = 30 and ACPBRIDGE_ANSWER_QUIET_S=30.
    """
    if not agent:
        raise UsageFault("no_agent", "say which agent to run, as in: acpbridge run -- hermes acp")
    # The hundred modules of a start make no garbage, and looking for it costs 20 ms.
    gc.disable()
    from acpbridge.config import load_settings  # noqa: PLC0415 - `--version` needs none of it

    settings = load_settings(options=options, environ=os.environ, config=config)
    if os.isatty(0) and os.isatty(1):
        _become(agent)
    from acpbridge.shell.run import serve_stdio  # noqa: PLC0415 - trio costs 70 ms

    gc.freeze()
    gc.enable()
    sys.exit(serve_stdio(settings, agent))


def _become(agent: tuple[str, ...]) -> NoReturn:
    """Replace this process with the agent: at a terminal there is no ACP client.

    Terminal-auth arguments (`hermes acp --setup`) need the terminal itself.

    Raises:
        AgentFault: The command cannot be started.
    """
    click.echo(f"acpbridge: no ACP client at this terminal; running {agent[0]} itself", err=True)
    try:
        os.execvp(agent[0], agent)  # noqa: S606 - no shell is wanted.
    except OSError as error:
        hint = f"cannot start {agent[0]}: {error.strerror}; install it, or give its full path"
        raise AgentFault("agent_not_started", hint) from error
