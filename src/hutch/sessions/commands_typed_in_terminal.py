"""The commands of a terminal, from the marks of its shell and the text that users type."""

import codecs
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from hutch.domain.events import CommandEnded, CommandStarted
from hutch.sessions.shell_mark_parser import Mark
from hutch.system.lazy_dataclass import dataclass

MAX_LINE_CHARS = 64 * 1024
MAX_LINES = 100  # that are remembered
LINE_ENDS = "\r\n\x0f"  # Ctrl-O runs a line too, in bash
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was typed; not `whole` if a key such as Tab may have changed it after `text`."""

    text: str
    whole: bool = True


class TypedLine:
    """The line that users type, as far as it is known without asking the shell."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._chars: list[str] = []
        self._is_whole = True

    def add(self, data: bytes) -> list[Line]:
        """Add typed text; return the lines that it completes."""
        lines: list[Line] = []
        for char in self._decoder.decode(data).replace("\x1b[200~", "").replace("\x1b[201~", ""):
            if char in LINE_ENDS:
                lines.append(Line("".join(self._chars), self._is_whole))
                self._clear()
            elif char in "\x03\x15":  # Ctrl-C, Ctrl-U
                self._clear()
            elif self._is_whole and char != "\x04":  # Ctrl-D ends the input, and changes no line
                self._change(char)
        return lines

    def _change(self, char: str) -> None:
        if char in "\x08\x7f":
            del self._chars[-1:]
        elif char == "\x17":  # Ctrl-W
            line = "".join(self._chars).rstrip()
            self._chars = list(line[: line.rfind(" ") + 1])
        elif char.isprintable() and len(self._chars) < MAX_LINE_CHARS:
            self._chars.append(char)
        else:
            self._is_whole = False

    def _clear(self) -> None:
        self._chars.clear()
        self._is_whole = True


@dataclass(frozen=True, slots=True)
class _Entered:
    """A line that a user has completed."""

    at: int  # the number of bytes that the terminal had printed before
    line: Line
    by: str


@dataclass(slots=True)
class _Running:
    event: CommandStarted
    since: float


class TerminalCommands:
    """Follows one terminal. The callbacks get each command when it starts and when it has ended.

    Typed text comes at once, output later. Both have a position in the output, and are processed in order.
    """

    def __init__(
        self,
        terminal: str,
        started: Callable[[CommandStarted], None],
        ended: Callable[[CommandEnded], None],
    ) -> None:
        self._terminal = terminal
        self._started, self._ended = started, ended
        self._running: _Running | None = None
        self._cwd = ""
        self._prompted_at = 0.0
        self._prompt_end = 0  # the output up to there, at the last prompt
        self._is_at_prompt = False
        self._is_continued = False
        self._reports_starts: bool | None = None  # None before the first prompt
        self._line = TypedLine()
        self._at = 0  # the output so far
        self._waiting: deque[_Entered] = deque(maxlen=MAX_LINES)  # for output that was printed before
        self._entered: deque[_Entered] = deque(maxlen=MAX_LINES)  # not seen as commands so far
        self.last_typist = ""
        self.last_author = ""  # of a command

    @property
    def is_running(self) -> bool:
        """True from the start of a command to its end."""
        return self._running is not None

    def type(self, data: bytes, by: str, at: int) -> None:
        """Note text that a user types when the terminal has printed `at` bytes."""
        self.last_typist = by
        self._waiting.extend(_Entered(at, line, by) for line in self._line.add(data))
        self._process(self._at)

    def mark(self, mark: Mark) -> None:
        """Note the next mark of the shell."""
        self._process(mark.at - 1)
        if mark.kind == "continued":
            self._continue()
        elif mark.kind == "start":
            self._end(None)  # its own mark is missing: the user has replaced the shell's prompt commands
            self._is_at_prompt = False
            entered = self._take_line(mark)
            command = mark.command if mark.is_certain else _resolve(mark.command, entered)
            self._start(command, entered.by if entered else self.last_typist)
        else:
            self._prompt(mark)

    def advance(self, at: int) -> None:
        """Note that the output up to here is known."""
        self._at = at
        self._process(at)

    def close(self, exit_code: int | None) -> None:
        """End the command that runs, when the terminal has ended."""
        self._end(exit_code)

    def _process(self, at: int) -> None:
        while self._waiting and self._waiting[0].at <= at:
            entered = self._waiting.popleft()
            if not (self._reports_starts is False and self._enter(entered)):
                self._entered.append(entered)

    def _prompt(self, mark: Mark) -> None:
        was_silent = self._is_at_prompt and not mark.reports_starts and mark.exit_code != INTERRUPTED
        if was_silent:
            self._start_typed_ahead()
        self._end(mark.exit_code)
        self._cwd, self._reports_starts, self._prompt_end = mark.cwd, mark.reports_starts, mark.at
        self._is_at_prompt, self._is_continued, self._prompted_at = True, False, time.monotonic()

    def _start_typed_ahead(self) -> None:
        """Start a command with a line that was typed before the prompt, for a shell that cannot report it."""
        if self._running is None and self._entered:
            by = _common_author(self._entered)
            line = _shown(self._entered.popleft().line)
            if line.strip():
                self._start(line, by, since=self._prompted_at)

    def _continue(self) -> None:
        """Note that the shell waits for the next line of a command. It may have been typed already."""
        if self._reports_starts is False:
            if self._is_at_prompt:
                self._start_typed_ahead()
                self._is_at_prompt = False
            if self._running is not None and self._entered:
                self._add_line(self._entered.popleft())
                return
        self._is_continued = True

    def _add_line(self, entered: _Entered) -> None:
        assert self._running is not None
        event = self._running.event
        command = f"{event.command}\n{_shown(entered.line)}"
        self._running.event = event.model_copy(update={"command": command})

    def _enter(self, entered: _Entered) -> bool:
        """Start or continue a command with a line, for a shell that cannot report it. False if the line is
        for a program, or typed ahead."""
        line = _shown(entered.line)
        if self._is_at_prompt and self._running is None:
            self._entered.clear()
            if line.strip():
                self._is_at_prompt = False
                self._start(line, entered.by)
            return True
        if self._is_continued and self._running is not None:
            self._is_continued = False
            self._add_line(entered)
            return True
        return False

    def _take_line(self, mark: Mark) -> _Entered | None:
        """The line that started a command: the first that fits, else the last; of those typed since the
        prompt, if there are any. Lines typed before may have been read by a program, so it has an author only
        if all that it may be have the same."""
        lines = list(self._entered)
        recent = [entered for entered in lines if entered.at >= self._prompt_end]
        candidates = recent or lines
        fits = [entered for entered in candidates if mark.is_certain and _fits(entered.line, mark.command)]
        if not candidates:
            return None
        taken = fits[0] if fits else candidates[-1]
        while self._entered.popleft() is not taken:
            pass
        if fits and recent:
            return taken
        # A line of which only the beginning is known may be any that begins so.
        possible = [entered for entered in candidates if entered in fits or not entered.line.whole]
        return replace(taken, by=_common_author(possible if fits else candidates))

    def _start(self, command: str, by: str, since: float | None = None) -> None:
        event = CommandStarted(terminal=self._terminal, command=command, cwd=self._cwd, by=by)
        self._running = _Running(event, time.monotonic() if since is None else since)
        self.last_author = by
        self._started(event)

    def _end(self, exit_code: int | None) -> None:
        running, self._running = self._running, None
        if running is not None:
            self._ended(
                CommandEnded(
                    terminal=self._terminal,
                    command=running.event.command,
                    cwd=running.event.cwd,
                    exit_code=exit_code,
                    duration_s=round(time.monotonic() - running.since, 6),
                    by=running.event.by,
                )
            )


def _common_author(lines: Iterable[_Entered]) -> str:
    """The author of all these lines; "" when they have several."""
    authors = {entered.by for entered in lines}
    return authors.pop() if len(authors) == 1 else ""


def _shown(line: Line) -> str:
    return line.text if line.whole else f"{line.text}…"


def _fits(line: Line, command: str) -> bool:
    beginning = line.text.strip()
    return bool(beginning) and command.strip().startswith(beginning)


def _resolve(newest: str, entered: _Entered | None) -> str:
    """The command of which the shell knows only that it is the newest in its history, or is not there."""
    if entered is None or entered.line.text.startswith("!"):  # "!!" repeats it
        return newest
    line = entered.line
    return _shown(line) if line.whole or line.text.startswith(" ") else newest
