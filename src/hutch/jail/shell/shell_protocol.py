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

from hutch.domain.errors import BadRequest
from hutch.jail.jail_request_validation import check_text
from hutch.system.lazy_dataclass import dataclass

NULL = "/dev/null"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
STATUS_REPORT = re.compile(rb"""=(['"])(\d{1,3}) (\d{1,10})\1\n| (\d{1,3}) (\d{1,10})\0""")
MAX_REPORT_BYTES = 24
EARLIER_REPLY = re.compile(rb"(?:zz|\0)[0-9a-f]{32}(?:%s)" % STATUS_REPORT.pattern)
MAX_BYTES = 4 * 1024 * 1024  # more than any environment of a program
NO_TERMINAL = re.compile(rb"bash: \[\d+: \d+ \(\d+\)\] tcsetattr: [^\n]*\n")
EXIT_WORD = b"exit\n"
# bash writes the message in several parts, and "exit" only when it ends
PARTIAL_CHATTER = re.compile(rb"(?:bash: (?:\[[^\n]{0,200})?|^exit\n)\Z", re.MULTILINE)
JOB_STARTED = re.compile(rb"^\[\d+\] \d+\n", re.MULTILINE)
BACKGROUND = re.compile(r"(?<![&<>|])&(?![&>])")  # in a command


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of shell is started and controlled."""

    arguments: tuple[str, ...]
    move_descriptors: str  # moves its initial descriptors to numbers that only we use
    is_chatty: bool  # adds messages to a command's standard error
    redirections: bytes  # of a command's standard output and error
    descriptors: tuple[int, int]  # the shell's own, of the output and error of commands
    reply_prefix: bytes  # precedes the nonce in a reply
    query: tuple[bytes, ...]  # surrounds the nonce in a status query

    def setup(self, *, cwd: str, fallback: str, exports: bytes, nonce: bytes) -> bytes:
        """The first lines to send."""
        return b"".join(
            (
                f"PS1= PS2= PS4='+ '\n{self.move_descriptors}\n".encode(),
                b"\\command \\eval %s\n" % quoted(exports) if exports else b"",
                b"\\cd -- %s || \\cd -- %s; \\unset OLDPWD\n" % (_text(cwd), _text(fallback)),
                self.status_query(nonce),
            )
        )

    def call(
        self, command: str, *, nonce: bytes, env: Mapping[str, str] | None, stdin: str, status: int = 0
    ) -> bytes:
        """The lines that run a command and report its end. The command sees `status` as `$?`."""
        # A failing part of an `&&` neither ends a shell with `set -e`, nor triggers an error trap.
        before = b"(\\command \\exit %d) && \\command \\:\n" % status if status else b""
        assignments = b"".join(
            b"%s=%s " % (name.encode(), _text(value)) for name, value in (env or {}).items()
        )
        return b"%s%s\\command \\eval %s %s <%s\n%s" % (
            before,
            assignments,
            _text(command),
            self.redirections,
            stdin.encode(),
            nonce.join(self.query),
        )

    def replace_output(self, pid: int) -> bytes:
        """A line after which commands print to the standard output and error of another process."""
        output, error = self.descriptors
        return b"\\exec %d>|/proc/%d/fd/1 %d>|/proc/%d/fd/2\n" % (output, pid, error, pid)

    def status_query(self, nonce: bytes) -> bytes:
        """A line that makes the shell report its exports, its last exit code and its last background
        process; see `ReplyParser`."""
        return nonce.join(self.query)


# While a command runs, a shell saves redirected descriptors above 9, closed on exec. Dash cannot name
# descriptors above 9, so we use one that scripts rarely use. `export` and `unset` are special builtins, which
# cannot be replaced, and a variable with an unknown name cannot be made read-only.
DASH = Dialect(
    ("-i", "+m"),
    "\\exec 7>&1 1>&2 2>&0",
    False,
    b"2>&1 >&7 7>&-",
    (7, 1),
    b"zz",
    (b"\\export zz", b'="$? ${!:-0}"; \\export -p >&2; \\unset -f command; \\unset zz', b"\n"),
)
# In bash every builtin can be a function. The exit code is inserted before `unset` changes it, and without a
# variable. The exports come first: by the time that the reader wakes up, the rest has arrived as well. Bash
# takes standard error for a terminal, and keeps it as 255: a pipe that is left to jobs must not stay open.
BASH = Dialect(
    ("--norc", "--noprofile", "--noediting", "-i", "+m", "+H", "+o", "history"),
    "\\exec 147>&1 148>&2 1>/dev/null 2>&0 255>&-",
    True,
    b">&147 2>&148 147>&- 148>&-",
    (147, 148),
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
class Reply:
    """A shell's reply at the end of a command."""

    exit_code: int
    background_pid: int  # of the last background process, 0 if there is none


class ReplyParser:
    """Scans for the reply with a nonce. The shell's exports come before it and are parsed only when
    needed."""

    def __init__(self, reply_prefix: bytes, max_bytes: int = MAX_BYTES) -> None:
        self.flooded = False  # more has come than a reply can contain
        self._prefix = reply_prefix  # precedes the nonce
        self._buffer = bytearray()
        self._scanned = 0  # no reply starts before this offset
        self._before = b""
        self._exports = b""
        self._max_bytes = max_bytes

    def feed(self, data: bytes, nonce: bytes) -> Reply | None:
        buffer: bytes | bytearray = data
        if self._buffer:
            self._buffer += data
            buffer = self._buffer
        reply_prefix = self._prefix + nonce
        partial = -1
        start = buffer.find(reply_prefix, self._scanned)
        while start >= 0:
            end = start + len(reply_prefix)
            match = STATUS_REPORT.match(buffer, end)
            if match is not None:
                self._before = bytes(buffer[:start])
                self._buffer, self._scanned = bytearray(buffer[match.end() :]), 0
                return Reply(int(match[2] or match[4]), int(match[3] or match[5]))
            if partial < 0 and len(buffer) - end < MAX_REPORT_BYTES:
                partial = start  # the rest may follow
            start = buffer.find(reply_prefix, start + 1)  # skip traces of our lines by `set -x` and `set -v`
        self._scanned = partial if partial >= 0 else max(0, len(buffer) - len(reply_prefix) + 1)
        if len(buffer) > self._max_bytes:
            self.flooded = True
            self._buffer, self._scanned = bytearray(), 0
        elif buffer is data:
            self._buffer = bytearray(data)
        return None

    def exports(self) -> bytes:
        """The exports from the last reply, or from the last one that had any."""
        past = 0
        for earlier in EARLIER_REPLY.finditer(self._before):  # a reply may have come twice
            past = earlier.end()
        self._exports = _exports(self._before[past:]) or self._exports
        return self._exports


def _exports(text: bytes) -> bytes:
    """Whole lines, without the traces that `set -x` wrote before them."""
    start = 0 if text.startswith((b"export ", b"declare ")) else -1
    if start < 0 and (found := re.search(rb"^(?:export|declare) ", text, re.MULTILINE)):
        start = found.start()
    return text[start : text.rfind(b"\n") + 1] if start >= 0 else b""


class ChatterFilter:
    """Removes bash's additions from output that arrives in chunks."""

    def __init__(self, command: str) -> None:
        self._has_jobs = BACKGROUND.search(command) is not None
        self._held_back = b""

    def add(self, data: bytes) -> bytes:
        """The data without bash's additions; a possible beginning of one is held back."""
        data = self._held_back + data
        self._held_back = b""
        if b"bash: " in data:
            data = NO_TERMINAL.sub(b"", data)
        if (data.endswith(EXIT_WORD) or b"bash: " in data) and (partial := PARTIAL_CHATTER.search(data)):
            data, self._held_back = data[: partial.start()], partial[0]
        return JOB_STARTED.sub(b"", data) if self._has_jobs else data

    def end(self, *, has_ended: bool) -> bytes:
        """The data that was held back when no more came; `has_ended`: the shell has ended."""
        held_back, self._held_back = self._held_back, b""
        return b"" if has_ended and held_back == EXIT_WORD else held_back


def remove_chatter(stderr: bytes, *, nonce: bytes, jobs_started: bool, has_ended: bool) -> bytes:
    """A command's standard error without bash's additions, and without a reply that was written there
    because the command closed its pipe."""
    stderr = NO_TERMINAL.sub(b"", stderr)
    if jobs_started:
        stderr = JOB_STARTED.sub(b"", stderr)
    if has_ended:
        stderr = stderr.removesuffix(EXIT_WORD)
        stderr = re.sub(rb"(?:declare [^\n]*\n)*\x00%s [^\x00]*\x00" % nonce, b"", stderr)
    return stderr
