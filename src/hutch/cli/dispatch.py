"""Loads and runs the commands of the command table.

Everything that needs typer to run a command is here; `main.py` imports this module only to run a
command.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from hutch.cli import exit_codes
from hutch.cli.command_table import Command
from hutch.cli.entry_point_commands import Plugin
from hutch.cli.local_only_notice import warn_if_local
from hutch.domain.errors import BadRequest, HutchError, Unavailable
from hutch.system.fast_imports import without_gc

Loaded = TyperCommand | TyperGroup
LIBRARY_WORDS = (  # compiled when there is an error: most commands have none
    (r"Value error, ", ""),
    (r"Input should be a valid integer\b.*", "it must be a whole number"),
    (r"Input should be a valid number\b.*", "it must be a number"),
    (r"Input should be a valid boolean\b.*", "it must be true or false"),
    (r"Input should be greater than or equal to (\S+)", r"it must be at least \1"),
    (r"Input should be less than or equal to (\S+)", r"it must be at most \1"),
    (r"Input should be greater than (\S+)", r"it must be more than \1"),
    (r"Input should be", "it must be"),
)


@cache
def load(command: Command) -> Loaded:
    """Import the command's module and build its typer command, once in a process."""
    target = _target(command)
    # No rich markup: the help of a command looks like that of `hutch` itself, and loads as fast.
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command("help-option")(_help_option)
    if isinstance(target, typer.Typer):
        app.add_typer(target, name=command.name)
    else:
        app.command(command.name)(target)
    app.callback()(lambda: None)
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    loaded = group.commands[command.name]
    assert isinstance(loaded, Loaded)
    _share(loaded, group.commands["help-option"].params)
    _defer_adapters(loaded)
    return loaded


def _target(command: Command) -> Any:
    module, attribute = command.target.split(":")
    with without_gc():
        return attrgetter(attribute)(import_module(module))


def invoke(command: Command, args: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    loaded = load(command)
    if isinstance(loaded, TyperGroup) and not args and not loaded.invoke_without_command:
        args = ["--help"]
    warn_if_local(command.name, args)
    try:
        with loaded.make_context(f"hutch {command.name}", list(args)) as context:
            code = loaded.invoke(context)
    except typer.Exit as exit_:
        return exit_.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        raise BadRequest(_usage_message(error, command)) from None
    return code if isinstance(code, int) else exit_codes.OK


def invoke_plugin(plugin: Plugin, args: Sequence[str]) -> int:
    """Run a command of another distribution; errors name the plugin as their cause."""
    command = plugin.command
    if plugin.problem:
        raise BadRequest(f"The plugin '{command.name}' is not used. {plugin.problem}")
    whose = f"The plugin '{command.name}' of {plugin.distribution}"
    try:
        target = _target(command)
        if not callable(target) and not isinstance(target, typer.Typer):
            raise TypeError(f"{command.target} is neither a command nor a function")
    except Exception as error:
        raise Unavailable(
            f"{whose} cannot be loaded: {type(error).__name__}: {error}. Fix or remove it."
        ) from error
    try:
        if hasattr(target, "main") and not isinstance(target, typer.Typer):  # a command of click
            code = target.main(args=list(args), prog_name=f"hutch {command.name}", standalone_mode=False)
            return code if isinstance(code, int) else exit_codes.OK
        return invoke(command, args)
    except (HutchError, OSError):
        raise
    except Exception as error:
        if hasattr(error, "exit_code") and hasattr(error, "format_message"):
            raise BadRequest(str(error.format_message())) from None
        raise Unavailable(f"{whose} failed: {type(error).__name__}: {error}") from error


def _usage_message(error: typer.TyperException, command: Command) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else f"hutch {command.name}"
    message = " ".join(error.format_message().split())
    for theirs, ours in LIBRARY_WORDS:
        message = re.sub(theirs, ours, message)
    message += "" if message.endswith((".", "?")) else "."
    if command.name == "shell" and hasattr(error, "option_name"):  # an option of the command to run
        message += " Put the command after --, as in: hutch shell -- ls -la."
    return f"{message} For help: {path} --help"


def _show_help(context: typer.Context, value: bool) -> None:
    if value and not context.resilient_parsing:
        typer.echo(context.get_help())
        raise typer.Exit


def _help_option(
    help_: Annotated[
        bool,
        typer.Option(
            "-h", "--help", is_eager=True, expose_value=False, callback=_show_help, help="Show this message."
        ),
    ] = False,
) -> None:
    """Carries the help option that all commands share.

    Typer's own help option would list its two names in random order and load pydantic to read them.
    """


class _DeferredAdapter:
    """Converts an option's value, without pydantic when it is a plain string or missing.

    Typer builds a pydantic adapter for every option. Loading pydantic takes a third of the time until a
    command sends its first request.
    """

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if param.type_descriptor.annotation is str and isinstance(value, str) and _is_unicode(value):
            return value
        return self._build().coerce(value, param=param, ctx=ctx)


def _is_unicode(text: str) -> bool:
    """False for command-line bytes that are not UTF-8: pydantic refuses them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _defer_adapters(loaded: Any) -> None:
    for param in loaded.params:
        if param.type_descriptor.parameter_info.parser is None:
            adapter = _DeferredAdapter(param.get_runtime_param)
            param.get_runtime_param = lambda adapter=adapter: adapter
    for below in getattr(loaded, "commands", {}).values():
        _defer_adapters(below)


def _share(loaded: Any, params: list[Any]) -> None:
    loaded.params.extend(params)
    for below in getattr(loaded, "commands", {}).values():
        _share(below, params)
