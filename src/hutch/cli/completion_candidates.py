"""Completion candidates after a command: its options, subcommands and values.

The completion scripts call `hutch __complete WORD...`; the last word is the one being typed. Words
arrive as arguments, so no shell quoting has to be undone.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from typer.core import TyperArgument, TyperGroup, TyperOption

from hutch.cli.command_table import COMMANDS, Command
from hutch.cli.dispatch import Loaded, load
from hutch.cli.entry_point_commands import Plugin
from hutch.cli.session_option_parsing import GENERATION, RUN_LIMITS
from hutch.domain.hutch_secret_names import SECRETS
from hutch.domain.session_jail_resource_limits import RANGES
from hutch.environment.layers.layer_store import LayerStore
from hutch.settings import find_paths, named_server
from hutch.store.doctor_and_completion_queries import newest_logs, newest_sessions, user_names
from hutch.system.terminal_safe_text import one_line
from hutch.workspace.lifecycle.workspace_record_and_directories import Home

Candidates = list[tuple[str, str]]  # words, each with its help

FILES: Candidates = [(":files", "")]  # the shell completes file names itself
MAX_SESSIONS, MAX_USERS = 50, 200
TIMEOUT_S = 0.5


def candidates(command: Command, args: Sequence[str], word: str) -> Candidates:
    """The completions of `word` after `args`, each with its help."""
    values = VALUES | OF_SERVER if command.group == "Sessions" or command.name == "shell" else VALUES
    if command.takes and not args and not word.startswith("-"):
        return _values(values[command.takes], word)
    loaded, args = _descend(load(command), args)
    context = loaded.make_context(command.name, list(args), resilient_parsing=True)
    target: TyperOption | TyperArgument | Loaded | None = _option_before(loaded, args)
    if target is None and (word.startswith("-") or isinstance(loaded, TyperGroup)):
        target = loaded
    if target is None:
        sources = {name: context.get_parameter_source(name) for name in context.params}
        present = {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}
        target = _next_argument(loaded, present)
    if target is None:
        return []
    if not isinstance(target, Loaded) and target.metavar and "|" in target.metavar:  # a choice of words
        return [(value, "") for value in target.metavar.split("|") if value.startswith(word)]
    if not isinstance(target, Loaded) and target.metavar in values:
        return _values(values[target.metavar], word)
    items = target.shell_complete(context, word)
    return [(item.value, (item.help or "").partition("\n")[0]) for item in items]


def plugin_candidates(plugin: Plugin, args: Sequence[str], word: str) -> Candidates:
    """The same for a command of another distribution; none if it cannot be loaded."""
    if plugin.problem:
        return []
    try:
        return candidates(plugin.command, args, word)
    except Exception:  # noqa: BLE001 - code of others; running the command shows the error, Tab must not
        return []


def _descend(loaded: Loaded, args: Sequence[str]) -> tuple[Loaded, Sequence[str]]:
    """Descend through subcommands; return the last one and the arguments after it."""
    while isinstance(loaded, TyperGroup):
        index = next((i for i, arg in enumerate(args) if arg in loaded.commands), None)
        if index is None:
            break
        below = loaded.commands[args[index]]
        assert isinstance(below, Loaded)
        loaded, args = below, args[index + 1 :]
    return loaded, args


def _option_before(loaded: Loaded, args: Sequence[str]) -> TyperOption | None:
    """The option whose value is being typed: the previous word, if it takes a value."""
    for option in loaded.params:
        if isinstance(option, TyperOption) and not option.is_flag and args and args[-1] in option.opts:
            return option
    return None


def _next_argument(loaded: Loaded, present: set[str]) -> TyperArgument | None:
    """The first argument that is not present yet, or one that takes any number of words."""
    for argument in loaded.params:
        if isinstance(argument, TyperArgument) and (argument.nargs == -1 or argument.name not in present):
            return argument
    return None


def _values(offer: Callable[[], Candidates], word: str) -> Candidates:
    """The values of a metavar that start with `word`."""
    found = offer()
    return found if found is FILES else [each for each in found if each[0].startswith(word)]


def _sessions() -> Candidates:
    """The newest sessions with a log on this machine."""
    rows = newest_logs(find_paths().database, MAX_SESSIONS, within_s=TIMEOUT_S)
    return _with_last(
        (session, opened_ms, f"{'ended' if ended else 'open'}, {events} events")
        for session, opened_ms, ended, events in rows
    )


def _sessions_of_server() -> Candidates:
    """The newest sessions of the server that commands use, local or remote."""
    paths = find_paths()
    if named_server()[0] or paths.login_file.exists():
        from hutch.cli.remote_session_completion import remote_sessions

        rows = remote_sessions(MAX_SESSIONS)
    else:
        rows = newest_sessions(paths.database, MAX_SESSIONS, within_s=TIMEOUT_S)
    return _with_last(
        (session, created_ms, f"{state}, {one_line(purpose, 60)}")
        for session, created_ms, state, purpose in rows
    )


def _with_last(sessions: Iterable[tuple[str, int, str]]) -> Candidates:
    """Sessions by id, with the time of their start and a description; `last` before them if there are any."""
    found = [
        (id, f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M}, {about}")
        for id, at_ms, about in sessions
    ]
    return [("last", "The session that was opened last."), *found] if found else []


def _secrets() -> Candidates:
    """The names in the vault; only the values are secret."""
    try:
        return [(name, "") for name in sorted(json.loads(find_paths().vault.read_bytes()))]
    except (OSError, ValueError, TypeError):
        return []


def _known_secrets() -> Candidates:
    """The names that a secret can have."""
    return [(name, "") for name in SECRETS]


def _kinds() -> Candidates:
    """The types of events, and their groups."""
    from hutch.domain.events import EVENT_TYPES

    groups = dict.fromkeys(f"{name.partition('.')[0]}." for name in EVENT_TYPES)
    return [(name, "") for name in sorted([*groups, *EVENT_TYPES])]


def _authors() -> Candidates:
    """The users of this installation, the agent and Hutch itself."""
    names = user_names(find_paths().database, MAX_USERS, within_s=TIMEOUT_S)
    return [("agent", "The agent."), ("hutch", "Hutch itself."), *((name, "") for name in names)]


def _limits() -> Candidates:
    """The limits of a session's commands."""
    return [(f"{name}=", each.meaning) for name, each in RANGES.items()]


def _options() -> Candidates:
    """The options of an open session."""
    names = ("persona", "model", "network", *GENERATION, *RUN_LIMITS)
    return [*((f"{name}=", "") for name in names), *_limits()]


def _commands() -> Candidates:
    return [(command.name, command.help) for command in COMMANDS]


def _layers() -> Candidates:
    layers = LayerStore(Home(find_paths().data)).layers()
    return [(layer.key[:12], one_line(layer.repository, 60)) for layer in layers]


def _extensions() -> Candidates:
    try:  # without the code of extensions, which takes longer to load than a person waits for Tab
        listed = json.loads(find_paths().catalogue.read_bytes())["mcpServers"]
        return [(str(name), "") for name in listed]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _files() -> Candidates:
    return FILES


VALUES: dict[str, Callable[[], Candidates]] = {
    "SESSION": _sessions,
    "NAME": _secrets,
    "SECRET": _known_secrets,
    "EXTENSION": _extensions,
    "COMMAND": _commands,
    "KIND": _kinds,
    "AUTHOR": _authors,
    "LIMIT=VALUE": _limits,
    "OPTION=VALUE...": _options,
    **dict.fromkeys(("LAYER", "LAYER..."), _layers),
    **dict.fromkeys(("FILE", "DIR", "RECORD"), _files),
}
OF_SERVER: dict[str, Callable[[], Candidates]] = dict.fromkeys(("SESSION", "SESSION..."), _sessions_of_server)
