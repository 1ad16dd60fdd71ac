r"""The text sent to a shell, and the parser for its replies. Nothing here does I/O.

The shell is interactive (`-i`) without a terminal, because only then do SIGINT
and errors such as an unset variable return it to its prompt with all its
variables. It reads commands from a socket on its standard input, which its
children do not inherit and, unlike a pipe, cannot open through /proc.

Outside of commands, standard error is the same socket, where the shell reports
the end of a command; prompts and the traces of our own lines (`set -x`, `set -v`)
vanish there too. Each command gets 0, 1 and 2 by redirection, so `exec >file` is
undone after it, and the shell keeps the other descriptors out of its reach.

Special builtins cannot be functions in dash, and a backslash prevents aliases;
`command` prevents a syntax error in `eval` from ending the shell.

Dash reports the end of a command in the list of its exports, under a name that
cannot be guessed and that comes last in the list: `export zz…='0 0'`. Bash prints
it between two NUL bytes. The bytes around it may be hostile: each byte is scanned
about once, however few come at a time, and when there are too many the shell
counts as lost.

Because it is interactive, bash adds to a command's standard error: a line for each
background job, the word "exit", and a message that there is no terminal. These are
removed again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hutch.domain.errors import BadRequest
from hutch.jail.request import check_text

NULL = "/dev/null"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
STATUS_REPORT = re.compile(rb"""=(['"])(\d{1,3}) (\d{1,10})\1\n| (\d{1,3}) (\d{1,10})\0""")
MAX_REPORTED = 24
EARLIER = re.compile(rb"(?:zz|\0)[0-9a-f]{32}(?:%s)" % STATUS_REPORT.pattern)
MAX_BYTES = 4 * 1024 * 1024  # more than any environment of a program
TERMINAL_MISSED = re.compile(rb"bash: \[\d+: \d+ \(\d+\)\] tcsetattr: [^\n]*\n")
LEFT = b"exit\n"
# bash writes the message in several parts, and "exit" only when it ends
UNSURE = re.compile(rb"(?:bash: (?:\[[^\n]{0,200})?|^exit\n)\Z", re.MULTILINE)
JOB_BEGAN = re.compile(rb"^\[\d+\] \d+\n", re.MULTILINE)
BACKGROUND = re.compile(r"(?<![&<>|])&(?![&>])")  # in a command


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of shell is started and controlled."""

    arguments: tuple[str, ...]
    aside: str  # moves its initial descriptors to numbers that only we use
    chatty: bool  # adds messages to a command's standard error
    redirections: bytes  # of a command's standard output and error
    mark: bytes  # precedes the nonce in a reply
    asking: tuple[bytes, ...]  # surrounds the nonce in a status query

    def setup(self, *, cwd: str, fallback: str, exports: bytes, nonce: bytes) -> bytes:
        """The first lines to send."""
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
        """The lines that run a command and report its end. The command sees `status` as `$?`."""
        # A failing part of an `&&` neither ends a shell with `set -e`, nor triggers an error trap.
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
        """A line that makes the shell report its exports, its last exit code and its last background
        process; see `Hearing`."""
        return nonce.join(self.asking)


# While a command runs, a shell saves redirected descriptors above 9, closed on exec. Dash cannot name
# descriptors above 9, so we use one that scripts rarely use. `export` and `unset` are special builtins, which
# cannot be replaced, and a variable with an unknown name cannot be made read-only.
DASH = Dialect(
    ("-i", "+m"),
    "\\exec 7>&1 1>&2 2>&0",
    False,
    b"2>&1 >&7 7>&-",
    b"zz",
    (b"\\export zz", b'="$? ${!:-0}"; \\export -p >&2; \\unset -f command; \\unset zz', b"\n"),
)
# In bash every builtin can be a function. The exit code is inserted before `unset` changes it, and without a
# variable. The exports come first: by the time that the reader wakes up, the rest has arrived as well.
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
    """The dialect of a shell program, by its name."""
    return BASH if program.rpartition("/")[2] == "bash" else DASH


def check_command(command: str, env: Mapping[str, str] | None) -> None:
    """Refuse commands and variables that cannot be sent to a shell."""
    if not isinstance(command, str):
        raise BadRequest(f"The command is of type {type(command).__name__}. Give the text for a shell.")
    if "\0" in command:
        raise BadRequest("The command contains a NUL byte, which no shell accepts. Remove it, or use a file.")
    if not command.isascii():
        check_text(command)
    for name, value in (env or {}).items():
        if not NAME.fullmatch(name):
            raise BadRequest(f"'{name}' is not a valid shell variable name. Use letters, digits and _.")
        if "\0" in value:
            raise BadRequest(f"The value of '{name}' contains a NUL byte. Remove it.")
        check_text(value)


def quoted(text: bytes) -> bytes:
    """The text as one word for a shell, whatever it contains."""
    return b"'%s'" % text.replace(b"'", b"'\\''")


def _text(text: str) -> bytes:
    return quoted(text.encode(errors="surrogateescape"))


@dataclass(frozen=True, slots=True)
class Answer:
    """A shell's reply at the end of a command."""

    exit_code: int
    background_pid: int  # of the last background process, 0 if there is none


class Hearing:
    """Scans for the reply with a nonce. The shell's exports come before it and are parsed only when
    needed."""

    def __init__(self, mark: bytes, most_bytes: int = MAX_BYTES) -> None:
        self.flooded = False  # more has come than a reply can contain
        self._mark = mark  # precedes the nonce
        self._heard = bytearray()
        self._looked = 0  # no reply starts before this offset
        self._before = b""
        self._exports = b""
        self._most = most_bytes

    def hear(self, data: bytes, nonce: bytes) -> Answer | None:
        heard: bytes | bytearray = data
        if self._heard:
            self._heard += data
            heard = self._heard
        mark = self._mark + nonce
        unsure = -1
        at = heard.find(mark, self._looked)
        while at >= 0:
            end = at + len(mark)
            told = STATUS_REPORT.match(heard, end)
            if told is not None:
                self._before = bytes(heard[:at])
                self._heard, self._looked = bytearray(heard[told.end() :]), 0
                return Answer(int(told[2] or told[4]), int(told[3] or told[5]))
            if unsure < 0 and len(heard) - end < MAX_REPORTED:
                unsure = at  # the rest may follow
            at = heard.find(mark, at + 1)  # skip the traces of our own lines by `set -x` and `set -v`
        self._looked = unsure if unsure >= 0 else max(0, len(heard) - len(mark) + 1)
        if len(heard) > self._most:
            self.flooded = True
            self._heard, self._looked = bytearray(), 0
        elif heard is data:
            self._heard = bytearray(data)
        return None

    def exports(self) -> bytes:
        """The exports from the last reply, or from the last one that had any."""
        past = 0
        for earlier in EARLIER.finditer(self._before):  # a reply may have come twice
            past = earlier.end()
        self._exports = _exports(self._before[past:]) or self._exports
        return self._exports


def _exports(text: bytes) -> bytes:
    """Whole lines, without the traces that `set -x` wrote before them."""
    start = 0 if text.startswith((b"export ", b"declare ")) else -1
    if start < 0 and (found := re.search(rb"^(?:export|declare) ", text, re.MULTILINE)):
        start = found.start()
    return text[start : text.rfind(b"\n") + 1] if start >= 0 else b""


class Chatter:
    """Removes bash's additions from output that arrives in chunks."""

    def __init__(self, command: str) -> None:
        self._has_jobs = BACKGROUND.search(command) is not None
        self._held = b""

    def add(self, data: bytes) -> bytes:
        """The data without bash's additions; a possible beginning of one is held back."""
        data = self._held + data
        self._held = b""
        if b"bash: " in data:
            data = TERMINAL_MISSED.sub(b"", data)
        if (data.endswith(LEFT) or b"bash: " in data) and (unsure := UNSURE.search(data)):
            data, self._held = data[: unsure.start()], unsure[0]
        return JOB_BEGAN.sub(b"", data) if self._has_jobs else data

    def end(self, *, left: bool) -> bytes:
        """The data that was held back when no more came; `left`: the shell has ended."""
        held, self._held = self._held, b""
        return b"" if left and held == LEFT else held


def without_chatter(stderr: bytes, *, nonce: bytes, jobs_began: bool, left: bool) -> bytes:
    """A command's standard error without bash's additions, and without a reply that was written there
    because the command closed its pipe."""
    stderr = TERMINAL_MISSED.sub(b"", stderr)
    if jobs_began:
        stderr = JOB_BEGAN.sub(b"", stderr)
    if left:
        stderr = stderr.removesuffix(LEFT)
        stderr = re.sub(rb"(?:declare [^\n]*\n)*\x00%s [^\x00]*\x00" % nonce, b"", stderr)
    return stderr
