"""Events of a jail: commands, terminals, the network."""

from typing import Literal

from hutch.domain.base_event import Event


class CommandStarted(Event):
    """A command was given to a shell of the jail, or typed in a terminal."""

    type: Literal["command.started"] = "command.started"
    shell: str = ""
    terminal: str = ""
    command: str
    cwd: str
    by: str = ""
    call_id: str = ""


class CommandYielded(Event):
    """A command ran longer than its caller waits, and continues in the background under an id."""

    type: Literal["command.yielded"] = "command.yielded"
    shell: str = ""
    terminal: str = ""
    command: str
    background_id: str
    by: str = ""


class CommandSignalled(Event):
    """A user sends a signal to a command in the background."""

    type: Literal["command.signalled"] = "command.signalled"
    background_id: str
    signal: int
    by: str = ""


class CommandEnded(Event):
    """A command ended by itself, by a signal, or at its timeout."""

    type: Literal["command.ended"] = "command.ended"
    shell: str = ""
    terminal: str = ""
    command: str
    cwd: str
    exit_code: int | None
    signal: int | None = None
    timed_out: bool = False
    duration_s: float
    background_id: str | None = None
    by: str = ""


class JobsDetached(Event):
    """A command of a shell or a terminal has ended, but processes that it started still run.

    If they may print, their output is recorded under `background_id`.
    """

    type: Literal["jobs.detached"] = "jobs.detached"
    shell: str = ""
    terminal: str = ""
    command: str = ""
    background_id: str | None = None
    by: str = ""


class JobsEnded(Event):
    """The last process that commands of a shell or a terminal left running has ended.

    Recorded at most a second later. With a `background_id`: no process of that command can print any more;
    others may still run.
    """

    type: Literal["jobs.ended"] = "jobs.ended"
    shell: str = ""
    terminal: str = ""
    background_id: str | None = None


class ShellPrinted(Event):
    """A command printed text; events of both streams come in the order in which they were read.

    With a `background_id` it was printed by a command in the background, or by processes that a command left
    running.
    """

    type: Literal["shell.printed"] = "shell.printed"
    shell: str
    stream: Literal["stdout", "stderr"]
    text: str
    skipped_bytes: int = 0
    background_id: str | None = None
    by: str = ""


class TerminalOpened(Event):
    """A person opened a terminal."""

    type: Literal["terminal.opened"] = "terminal.opened"
    terminal: str
    columns: int
    rows: int
    by: str = ""


class TerminalPrinted(Event):
    """A terminal printed text, escape sequences included."""

    type: Literal["terminal.printed"] = "terminal.printed"
    terminal: str
    text: str
    skipped_bytes: int = 0


class TerminalTyped(Event):
    """A user typed text in a terminal, or sent it keys.

    While a program reads without showing what is typed, as for a password, only the number of characters is
    recorded.
    """

    type: Literal["terminal.typed"] = "terminal.typed"
    terminal: str
    text: str
    hidden_chars: int = 0
    skipped_bytes: int = 0
    by: str = ""


class TerminalResized(Event):
    """The size of a terminal changed."""

    type: Literal["terminal.resized"] = "terminal.resized"
    terminal: str
    columns: int
    rows: int
    by: str = ""


class TerminalEnded(Event):
    """The program of a terminal has ended, or was ended.

    `by` closed it, or typed its last input; empty if Hutch ended it. `limit` stopped it: a setting and its
    value.
    """

    type: Literal["terminal.ended"] = "terminal.ended"
    terminal: str
    exit_code: int | None = None
    limit: str = ""
    by: str = ""


class EgressAttempted(Event):
    """A process in the jail tried to connect to a host."""

    type: Literal["egress.attempted"] = "egress.attempted"
    method: str
    host: str
    port: int
    allowed: bool
    reason: str = ""
