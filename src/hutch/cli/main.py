"""The command line: its first words, and every error.

Help, version, completion of command names and mistyped commands need only the command table; only
running a command loads typer and the command's module. Every error becomes one message on stderr and
an exit code.
"""

import gc
import os
import resource
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import hutch
from hutch.cli import exit_codes
from hutch.cli.command_table import BY_NAME, Command
from hutch.cli.entry_point_commands import find_plugin, find_plugins, help_rows
from hutch.domain.errors import BadRequest, HutchError
from hutch.system.terminal_safe_text import printable, visible

GC_THRESHOLD = 100_000  # new objects between two collections: loading modules produces no garbage


def main() -> int:
    """Run the command line of this process, return the exit code."""
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    # While SIGCHLD is ignored, the exit codes of children are lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _disable_core_dumps()
    _restrict_umask()
    code = run(sys.argv[1:])
    gc.freeze()  # at exit the interpreter would search all modules for garbage
    return code


def _disable_core_dumps() -> None:
    """Prevent core dumps, which would contain tokens and keys.

    The limit is 1 byte, not 0: with 0 the kernel still pipes the memory to a program that
    kernel.core_pattern names after a `|`, as systemd and Ubuntu do. With 1 it does not.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (1 if hard else 0, hard))


def _restrict_umask() -> None:
    """Deny group and others write access under the permissive umask of daemons and containers.

    Otherwise any local user could put settings into a new HUTCH_HOME, or replace Hutch's files.
    """
    umask = os.umask(0o077)
    os.umask(umask if umask & stat.S_IWOTH else umask | stat.S_IWGRP | stat.S_IWOTH)


def run(args: Sequence[str], commands: Mapping[str, Command] = BY_NAME) -> int:
    """Run a command line; every exception becomes an exit code."""
    words = list(args)
    # Closed by the parent process. An opened file would take the number of a closed stream.
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    debug = bool(words) and words[0] == "--debug"
    try:
        code = _run_words(words[1:] if debug else words, commands)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _silence_stdout()
        return exit_codes.BROKEN_PIPE
    except KeyboardInterrupt:
        _write_error("hutch: interrupted\n")
        return exit_codes.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last handler
        if debug:
            sys.excepthook(type(error), error, error.__traceback__)
            return exit_codes.code_of(error)
        return _report(error)


def _run_words(words: list[str], commands: Mapping[str, Command]) -> int:
    match words:
        case [] if os.isatty(0) and os.isatty(1):
            from hutch.cli.screens.app import screen_command

            return screen_command()
        case [] | ["-h" | "--help", *_] | ["help"]:
            from hutch.cli.top_level_help import help_text

            sys.stdout.write(help_text(plugins=help_rows(find_plugins())))
        case ["--version", *_]:
            sys.stdout.write(f"hutch {hutch.__version__}\n")
        case ["__complete", *typed]:
            for word, help_ in _candidates(typed, commands):
                sys.stdout.write(f"{word}\t{help_}\n")
        case ["tasks", "prompt"] if "tasks" in commands:
            from hutch.cli.server_tasks.shell_prompt_status_line import prompt_line

            sys.stdout.write(line + "\n" if (line := prompt_line()) else "")
        case [name, *args] if name in commands:
            from hutch.cli.dispatch import invoke

            return invoke(commands[name], args)
        case [name, *args] if plugin := find_plugin(name):
            from hutch.cli.dispatch import invoke_plugin

            return invoke_plugin(plugin, args)
        case [name, *_]:
            from hutch.cli.top_level_help import unknown

            raise BadRequest(unknown(name))
    return exit_codes.OK


def _candidates(typed: list[str], commands: Mapping[str, Command]) -> list[tuple[str, str]]:
    """The completions of the last word."""
    if typed[:1] == ["--debug"] and len(typed) > 1:
        typed = typed[1:]
    match typed:
        case [word]:
            from hutch.cli.top_level_help import first_words

            plugins = [(each.command.name, each.command.help) for each in find_plugins() if not each.problem]
            return [first for first in [*first_words(), *plugins] if first[0].startswith(word)]
        case [name, *args, word] if name in commands:
            from hutch.cli.completion_candidates import candidates

            return candidates(commands[name], args, word)
        case [name, *args, word] if plugin := find_plugin(name):
            from hutch.cli.completion_candidates import plugin_candidates

            return plugin_candidates(plugin, args, word)
        case _:
            return []


def _silence_stdout() -> None:
    """Redirect stdout to /dev/null: Python flushes it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_error(text: str) -> None:
    """Write to stderr. If nobody reads it (`2>&1 | head`), only the exit code shows the error."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _report(error: Exception) -> int:
    code = exit_codes.code_of(error)
    message = visible(str(error), lines=True)  # it may quote untrusted text
    if isinstance(error, HutchError) and code != exit_codes.BUG:
        _write_error(f"hutch: {message}\n")
    elif isinstance(error, OSError):
        if not error.filename:
            _silence_stdout()
        subject = f"{error.filename}: " if error.filename else "The output could not be written: "
        _write_error(f"hutch: {printable(subject)}{error.strerror or error}. Fix this and try again.\n")
    else:
        _write_error(
            f"hutch: {type(error).__name__}: {message}\n"
            "This is a bug in Hutch. For a traceback, put --debug before the command: hutch --debug …\n"
        )
    return code
