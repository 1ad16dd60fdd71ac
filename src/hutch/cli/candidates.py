"""What may be typed next after a command: its options, sub-commands and values.

The completion scripts ask `hutch __complete WORD...`; the last word is the one
being typed. Words come as arguments, so no shell quoting has to be undone.
"""

from collections.abc import Sequence

from typer.core import TyperArgument, TyperGroup, TyperOption

from hutch.cli.commands import Command
from hutch.cli.dispatch import Loaded, load


def candidates(command: Command, args: Sequence[str], word: str) -> list[tuple[str, str]]:
    """Words that may stand in the place of `word` after `args`, each with its help."""
    loaded, args = _descend(load(command), args)
    context = loaded.make_context(command.name, list(args), resilient_parsing=True)
    asked: TyperOption | TyperArgument | Loaded | None = _option_before(loaded, args)
    if asked is None and (word.startswith("-") or isinstance(loaded, TyperGroup)):
        asked = loaded
    if asked is None:
        sources = {name: context.get_parameter_source(name) for name in context.params}
        given = {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}
        asked = _next_argument(loaded, given)
    if asked is None:
        return []
    items = asked.shell_complete(context, word)
    return [(item.value, (item.help or "").partition("\n")[0]) for item in items]


def _descend(loaded: Loaded, args: Sequence[str]) -> tuple[Loaded, Sequence[str]]:
    """Follow the names of sub-commands down; what is left are the arguments of the last one."""
    while isinstance(loaded, TyperGroup):
        place = next((i for i, arg in enumerate(args) if arg in loaded.commands), None)
        if place is None:
            break
        below = loaded.commands[args[place]]
        assert isinstance(below, Loaded)
        loaded, args = below, args[place + 1 :]
    return loaded, args


def _option_before(loaded: Loaded, args: Sequence[str]) -> TyperOption | None:
    """The option whose value is being typed, if one that takes a value stands right before."""
    for option in loaded.params:
        if isinstance(option, TyperOption) and not option.is_flag and args and args[-1] in option.opts:
            return option
    return None


def _next_argument(loaded: Loaded, given: set[str]) -> TyperArgument | None:
    """The first argument that was not given yet, or one that takes any number of words."""
    for argument in loaded.params:
        if isinstance(argument, TyperArgument) and (argument.nargs == -1 or argument.name not in given):
            return argument
    return None
