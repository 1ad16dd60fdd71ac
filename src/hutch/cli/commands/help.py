"""`hutch help`: the same as `--help`, as a command."""

from typing import Annotated

import typer

from hutch.cli import exit_codes, top_level_help
from hutch.cli.command_table import BY_NAME
from hutch.cli.dispatch import invoke, invoke_plugin
from hutch.cli.entry_point_commands import find_plugin, find_plugins, help_rows
from hutch.domain.errors import BadRequest


def help_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="The command to explain; by default hutch itself."),
    ] = None,
) -> int:
    """Show the help of hutch, or of one command, as --help does.

    'hutch help config show' is the same as 'hutch config show --help'.
    """
    if not command:
        typer.echo(top_level_help.help_text(plugins=help_rows(find_plugins())), nl=False)
        return exit_codes.OK
    name, *below = command
    if name not in BY_NAME:
        if plugin := find_plugin(name):
            return invoke_plugin(plugin, [*below, "--help"])
        raise BadRequest(top_level_help.unknown(name))
    return invoke(BY_NAME[name], [*below, "--help"])
