"""`acpbridge run`: one agent behind our own stdin and stdout."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, NoReturn

import click

from acpbridge.cli.options import ARGUMENTS, bridge_options
from acpbridge.errors import AgentFault, UsageFault


@click.command(context_settings=ARGUMENTS)
@bridge_options
@click.option(
    "--on-disconnect",
    type=click.Choice(["stop", "finish"]),
    help="What becomes of a running turn when the client leaves.  [default: stop]",
)
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
