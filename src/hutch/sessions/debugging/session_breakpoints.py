"""The breakpoints of a session. They outlive its debuggers and jails, and a restart: the log holds them."""

from collections.abc import Sequence
from dataclasses import replace

from hutch.agent.session_recorder import Recorder
from hutch.domain.debug_events import BreakpointLine, BreakpointsChanged
from hutch.domain.errors import BadRequest
from hutch.domain.event_query import EventQuery
from hutch.domain.log_entry_audience import PUBLIC
from hutch.domain.relative_path import parse_path
from hutch.sessions.debugging.debug_requests import Breakpoint, FileBreakpoints

MAX_BREAKPOINTS = 200  # of a file
MAX_FILES = 100  # with breakpoints
MAX_CONDITION_CHARS = 500
MAX_READ = 20  # parts of the log that are searched for them


class Breakpoints:
    """The breakpoints of all files."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._files: dict[str, tuple[Breakpoint, ...]] = {}
        self._is_read = False

    async def read(self) -> None:
        """Read them from the log, once."""
        if self._is_read:
            return
        self._is_read = True
        query, after = EventQuery(kinds=("debug.breakpoints_changed",)), 0
        for _ in range(MAX_READ):
            found = await self._recorder.log.search(
                self._recorder.session_id, query, PUBLIC, after=after, limit=500
            )
            for entry in found.entries:
                if isinstance(event := entry.event, BreakpointsChanged):
                    lines = [Breakpoint(each.line, each.condition) for each in event.breakpoints]
                    self._replace(event.file, tuple(lines))
            if found.next is None:
                return
            after = found.next

    def items(self) -> list[tuple[str, tuple[Breakpoint, ...]]]:
        return sorted(self._files.items())

    def shown(self) -> tuple[FileBreakpoints, ...]:
        return tuple(FileBreakpoints(*each) for each in self.items())

    async def set(
        self, path: str, breakpoints: Sequence[Breakpoint], *, by: str
    ) -> tuple[Breakpoint, ...] | None:
        """Replace those of a file, and record it. Returns them, None if nothing changes."""
        path = parse_path(path)
        if len(breakpoints) > MAX_BREAKPOINTS:
            raise BadRequest(
                f"A file has at most {MAX_BREAKPOINTS} breakpoints; these are {len(breakpoints)}."
            )
        if path not in self._files and breakpoints and len(self._files) >= MAX_FILES:
            raise BadRequest(f"{MAX_FILES} files have breakpoints. Remove those of another file first.")
        for each in breakpoints:
            if each.line < 1 or len(each.condition) >= MAX_CONDITION_CHARS:
                raise BadRequest(
                    f"A breakpoint has a line from 1, and a condition under {MAX_CONDITION_CHARS} characters."
                )
        by_line = {each.line: Breakpoint(each.line, each.condition) for each in breakpoints}
        lines = tuple(by_line[line] for line in sorted(by_line))
        before = [(each.line, each.condition) for each in self._files.get(path, ())]
        if [(each.line, each.condition) for each in lines] == before:
            return None
        clean = self._recorder.redactor.redact
        shown = tuple(BreakpointLine(line=each.line, condition=clean(each.condition)) for each in lines)
        await self._recorder.append(
            [BreakpointsChanged(file=self._recorder.clean_path(path), breakpoints=shown, by=by)]
        )
        self._replace(path, lines)
        return lines

    def reset(self) -> None:
        """Note that no program knows them yet."""
        for path, lines in self._files.items():
            self._files[path] = tuple(Breakpoint(each.line, each.condition) for each in lines)

    def verify(self, path: str, index: int, holds: bool, message: str) -> None:
        """Note whether the program has code at the line of a breakpoint."""
        lines = self._files.get(path, ())
        if index < len(lines):
            found = replace(lines[index], verified=holds, message=message)
            self._files[path] = (*lines[:index], found, *lines[index + 1 :])

    def _replace(self, path: str, lines: tuple[Breakpoint, ...]) -> None:
        if lines:
            self._files[path] = lines
        else:
            self._files.pop(path, None)
