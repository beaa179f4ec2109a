"""The command line: parse, call one function, exit. trio is imported inside commands only.

stdout belongs to the protocol, or to the report that a command was asked for: every other word
for people goes to stderr.
"""

from __future__ import annotations

from typing import Any

import click

from acpbridge import __version__
from acpbridge.cli.demo import demo
from acpbridge.cli.diagnose import diagnose
from acpbridge.cli.prompts import prompts
from acpbridge.cli.replay import replay
from acpbridge.cli.run import run
from acpbridge.cli.serve import attach, serve, stop
from acpbridge.cli.shim import shim
from acpbridge.cli.status import status
from acpbridge.cli.tail import tail
from acpbridge.errors import AcpBridgeError


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


main.add_command(run)
main.add_command(serve)
main.add_command(attach)
main.add_command(stop)
main.add_command(tail)
main.add_command(demo)
main.add_command(diagnose)
main.add_command(prompts)
main.add_command(replay)
main.add_command(shim)
main.add_command(status)
