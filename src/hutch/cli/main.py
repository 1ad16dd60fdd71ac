"""The door: `hutch` on the command line.

Help, version, completion of command names and mistyped commands are answered
from the command table alone; only a command that is really wanted loads typer
and its own module. Every error becomes one message on stderr and an exit code.
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
from hutch.cli import exit_codes, top_level_help
from hutch.cli.command_table import BY_NAME, Command
from hutch.cli.plugins import find_plugin, find_plugins, help_rows
from hutch.domain.errors import BadRequest, HutchError
from hutch.system.terminal_text import printable

NEW_OBJECTS = 100_000  # between two searches for garbage: in what is being loaded there is none


def main() -> int:
    """The console script: run what was typed, return the exit code."""
    gc.set_threshold(NEW_OBJECTS, 20, 20)
    # While it is ignored, the exit codes of children are lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _leave_no_core()
    _keep_others_from_writing()
    return run(sys.argv[1:])


def _leave_no_core() -> None:
    """A core file would hold tokens and keys.

    One byte, and not none: a limit of none does not keep the kernel from handing the memory to a program
    that kernel.core_pattern names after a `|`, such as those of systemd and Ubuntu. One byte does.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (1 if hard else 0, hard))


def _keep_others_from_writing() -> None:
    """With a umask that lets everybody write, as daemons and containers have it, anybody could put settings
    into a new HUTCH_HOME or other files in the place of ours."""
    umask = os.umask(0o077)
    os.umask(umask if umask & stat.S_IWOTH else umask | stat.S_IWGRP | stat.S_IWOTH)


def run(args: Sequence[str], commands: Mapping[str, Command] = BY_NAME) -> int:
    """Answer, whatever happens; nothing rises from here."""
    words = list(args)
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    debug = bool(words) and words[0] == "--debug"
    try:
        code = _answer(words[1:] if debug else words, commands)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _silence_stdout()
        return exit_codes.BROKEN_PIPE
    except KeyboardInterrupt:
        sys.stderr.write("hutch: interrupted\n")
        return exit_codes.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - nobody above could answer
        if debug:
            sys.excepthook(type(error), error, error.__traceback__)
            return exit_codes.code_of(error)
        return _say(error)


def _answer(words: list[str], commands: Mapping[str, Command]) -> int:
    match words:
        case [] if os.isatty(0) and os.isatty(1):
            from hutch.cli.screens.app import screen_command

            return screen_command()
        case [] | ["-h" | "--help", *_] | ["help"]:
            sys.stdout.write(top_level_help.help_text(plugins=help_rows(find_plugins())))
        case ["--version", *_]:
            sys.stdout.write(f"hutch {hutch.__version__}\n")
        case ["__complete", *typed]:
            for word, help_ in _candidates(typed, commands):
                sys.stdout.write(f"{word}\t{help_}\n")
        case [name, *args] if name in commands:
            from hutch.cli.dispatch import invoke

            return invoke(commands[name], args)
        case [name, *args] if plugin := find_plugin(name):
            from hutch.cli.dispatch import invoke_plugin

            return invoke_plugin(plugin, args)
        case [name, *_]:
            raise BadRequest(top_level_help.unknown(name))
    return exit_codes.OK


def _candidates(typed: list[str], commands: Mapping[str, Command]) -> list[tuple[str, str]]:
    """What may stand in the place of the last word typed."""
    if typed[:1] == ["--debug"] and len(typed) > 1:
        typed = typed[1:]
    match typed:
        case [word]:
            plugins = [(each.command.name, each.command.help) for each in find_plugins() if not each.problem]
            return [first for first in [*top_level_help.first_words(), *plugins] if first[0].startswith(word)]
        case [name, *args, word] if name in commands:
            from hutch.cli.completion_candidates import candidates

            return candidates(commands[name], args, word)
        case _:
            return []


def _silence_stdout() -> None:
    """Python flushes stdout once more on its way out: let that go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(error: Exception) -> int:
    code = exit_codes.code_of(error)
    message = printable(str(error), keep="\n")  # it may quote anybody
    if isinstance(error, HutchError) and code != exit_codes.BUG:
        sys.stderr.write(f"hutch: {message}\n")
    elif isinstance(error, OSError):
        if not error.filename:
            _silence_stdout()
        place = f"{error.filename}: " if error.filename else "The output could not be written: "
        sys.stderr.write(f"hutch: {printable(place)}{error.strerror or error}. Mend that and try again.\n")
    else:
        sys.stderr.write(
            f"hutch: {type(error).__name__}: {message}\n"
            "This is a bug in Hutch. Put --debug before the command to see where: hutch --debug …\n"
        )
    return code
