"""Makes the shell of a terminal mark its prompts and commands, so that the host can record them.

A file of `shell_rc/` is read by bash, zsh or sh when it starts, and reads the user's own file. The shell
then prints OSC 133 marks, which terminals do not show:

    ESC ] 133 ; D ; EXIT_CODE ; hutch=KEY ; cwd=PATH ST     the last command has ended, if there was one
    ESC ] 133 ; A ST        PROMPT        ESC ] 133 ; B ST  around the prompt, for terminals of users
    ESC ] 133 ; C ; hutch=KEY ; command=TEXT ST             a command starts

Only a mark with the key counts: any program can print marks. The shell gets the key through a socket at
descriptor 3, so it is in no file, argument or environment, and no other process can open that socket. The
key does not protect against code that runs in the shell itself, or a process that reads its memory.

bash writes `perhaps` in place of `command` if the command may not be in its history. sh cannot say when a
command starts: `typed=1` tells the host to take the line that was typed.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field
from importlib import resources
from pathlib import PurePosixPath

from hutch.system.lazy_dataclass import dataclass

DIRECTORY = "/run/hutch/shell"  # in a jail
FILES = ("bash.sh", "sh.sh", "zsh/.zshenv")
SOURCES = resources.files("hutch.jail").joinpath("shell_rc")
KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class MarkedProgram:
    """The arguments of a shell, with what it needs to print marks. Without a key it prints none."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    key: str = ""


def marked_program(
    program: str, *, unsafe: bool = False, environment: Mapping[str, str] | None = None
) -> MarkedProgram:
    """A shell that prints marks if it is one of the known ones, otherwise just the program."""
    directory = str(SOURCES) if unsafe else DIRECTORY
    present = environment or {}
    key = secrets.token_hex(KEY_BYTES)
    match PurePosixPath(program).name:
        case "bash":
            return MarkedProgram((program, "--rcfile", f"{directory}/bash.sh"), {}, key)
        case "zsh":
            env = {"ZDOTDIR": f"{directory}/zsh", "HUTCH_ZDOTDIR": present.get("ZDOTDIR", "")}
            return MarkedProgram((program,), env, key)
        case "sh" | "dash":
            env = {"ENV": f"{directory}/sh.sh", "HUTCH_ENV": present.get("ENV", "")}
            return MarkedProgram((program,), env, key)
    return MarkedProgram((program,))


def shell_files() -> dict[str, str]:
    """The files that a jail needs, by their path in it."""
    return {f"{DIRECTORY}/{name}": SOURCES.joinpath(name).read_text() for name in FILES}
