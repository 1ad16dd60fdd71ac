r"""What is said to a shell. Text in, text out; nothing here runs.

The shell is interactive (`-i`) without a terminal, because only then do SIGINT
and errors such as an unset variable bring it back to its prompt with all its
variables. It reads commands from a socket on its standard input, which its
children do not inherit and, unlike a pipe, cannot open by /proc.

Outside of commands, standard error is the same socket, where it tells that a
command is done; prompts, `set -x` and `set -v` of our own lines vanish there
too. Each command gets 0, 1 and 2 by redirection, so what `exec >file` did is
undone after it, and the shell keeps the other descriptors out of its reach.

Special builtins cannot be functions in dash, and a backslash keeps aliases
away; `command` keeps a syntax error in `eval` from being the end of the shell.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hutch.domain.errors import BadRequest
from hutch.jail.request import check_text

NULL = "/dev/null"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of shell is started and spoken to."""

    arguments: tuple[str, ...]
    aside: str  # moves the descriptors it was started with to where only we use them
    chatty: bool  # adds to a command's standard error
    redirections: bytes  # gives a command its standard output and error
    mark: bytes  # comes before the nonce in an answer
    asking: tuple[bytes, ...]  # comes around the nonce in the question

    def setup(self, *, cwd: str, fallback: str, exports: bytes, nonce: bytes) -> bytes:
        """The first lines."""
        return b"".join(
            (
                f"PS1= PS2= PS4='+ '\n{self.aside}\n".encode(),
                b"\\command \\eval %s\n" % quoted(exports) if exports else b"",
                b"\\cd -- %s || \\cd -- %s; \\unset OLDPWD\n" % (_text(cwd), _text(fallback)),
                self.question(nonce),
            )
        )

    def call(
        self, command: str, *, nonce: bytes, env: Mapping[str, str] | None, stdin: str, status: int = 0
    ) -> bytes:
        """The lines that run a command and tell its end. It sees `status` as `$?`."""
        # The failing part of an `&&` is neither the end of a shell with `set -e`, nor trapped as an error.
        before = b"(\\command \\exit %d) && \\command \\:\n" % status if status else b""
        given = b"".join(b"%s=%s " % (name.encode(), _text(value)) for name, value in (env or {}).items())
        return b"%s%s\\command \\eval %s %s <%s\n%s" % (
            before,
            given,
            _text(command),
            self.redirections,
            stdin.encode(),
            nonce.join(self.asking),
        )

    def question(self, nonce: bytes) -> bytes:
        """A line that makes the shell tell what it exports, its last exit code and its last background
        process; see `shell_answer`."""
        return nonce.join(self.asking)


# While a command runs, a shell keeps what was redirected beyond 9, closed on exec. Dash can name no
# descriptor beyond 9, so one of those that scripts use the least is ours. `export` and `unset` are special
# builtins, which nobody can replace, and nobody can make a variable read-only whose name is not known.
DASH = Dialect(
    ("-i", "+m"),
    "\\exec 7>&1 1>&2 2>&0",
    False,
    b"2>&1 >&7 7>&-",
    b"zz",
    (b"\\export zz", b'="$? ${!:-0}"; \\export -p >&2; \\unset -f command; \\unset zz', b"\n"),
)
# In bash every builtin can be a function. The exit code is put in before `unset` changes it, and without a
# variable. The exports come first: by the time that the reader is awake, the rest is there as well.
BASH = Dialect(
    ("--norc", "--noprofile", "--noediting", "-i", "+m", "+H", "+o", "history"),
    "\\exec 147>&1 148>&2 1>/dev/null 2>&0",
    True,
    b">&147 2>&148 147>&- 148>&-",
    b"\0",
    (
        b"\\eval \"\\\\unset -f command printf; \\\\command \\\\export -p; \\\\command \\\\printf '\\\\000",
        b" $? ${!:-0}\\\\0'\" >&2\n",
    ),
)


def dialect(program: str) -> Dialect:
    """What is spoken by the program of that name."""
    return BASH if program.rpartition("/")[2] == "bash" else DASH


def check_command(command: str, env: Mapping[str, str] | None) -> None:
    """Refuse what cannot be said to a shell."""
    if not isinstance(command, str):
        raise BadRequest(
            f"The command is of type {type(command).__name__}. Give the text that a shell reads."
        )
    if "\0" in command:
        raise BadRequest("The command holds a NUL byte, which no shell can read. Remove it, or use a file.")
    if not command.isascii():
        check_text(command)
    for name, value in (env or {}).items():
        if not NAME.fullmatch(name):
            raise BadRequest(f"'{name}' cannot be a variable of a shell. Use letters, digits and _.")
        if "\0" in value:
            raise BadRequest(f"The value of '{name}' holds a NUL byte. Remove it.")
        check_text(value)


def quoted(text: bytes) -> bytes:
    """One word for a shell, whatever is in it."""
    return b"'%s'" % text.replace(b"'", b"'\\''")


def _text(text: str) -> bytes:
    return quoted(text.encode(errors="surrogateescape"))
