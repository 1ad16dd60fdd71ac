"""read_file: the lines of a file, numbered, or what it is instead."""

from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.paths import inside
from hutch.agent.tools.seam import Arguments, Context, ToolResult
from hutch.workspace.ranges import Binary

MOST_LINES = 1000
LINE_LETTERS = 2000


class ReadFileArguments(Arguments):
    path: str
    start_line: int | None = Field(None, ge=1)
    end_line: int | None = Field(None, ge=1)

    def touched(self) -> tuple[str, ...]:
        return (self.path,)


class ReadFile:
    name: ClassVar[str] = "read_file"
    description: ClassVar[str] = (
        f"Read a text file with line numbers; up to {MOST_LINES} lines at once, from start_line on."
    )
    arguments: ClassVar[type[Arguments]] = ReadFileArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, given: ReadFileArguments, context: Context) -> ToolResult:
        path = inside(given.path, context)
        first = given.start_line or 1
        last = min(given.end_line or first + MOST_LINES - 1, first + MOST_LINES - 1)
        found = await context.workspace.read(path, first, last)
        if isinstance(found, Binary):
            return ToolResult(
                f"'{path}' is not text: {found.kind}, {found.size:,} bytes, begins with {found.head}.",
                data={"path": path, "binary": True, "size": found.size, "kind": found.kind},
            )
        if found.sha256:
            context.read[path] = found.sha256
        data = {
            "path": path,
            "text": found.text,
            "first_line": found.first_line,
            "last_line": found.last_line,
            "total_lines": found.total_lines,
            "sha256": found.sha256,
        }
        if found.last_line < found.first_line:
            empty = found.size == 0
            total = found.total_lines or 0
            return ToolResult(
                "(the file is empty)" if empty else f"The file has only {total} lines.", data=data
            )
        lines = [
            f"{number:>6}\t{line if len(line) <= LINE_LETTERS else line[:LINE_LETTERS] + '… (cut)'}"
            for number, line in enumerate(found.text.splitlines(), start=found.first_line)
        ]
        more = found.total_lines is None or found.last_line < found.total_lines
        if more:
            of = f" of {found.total_lines}" if found.total_lines else ""
            lines.append(f"(lines {found.first_line} to {found.last_line}{of}; read on with start_line)")
        return ToolResult("\n".join(lines), data=data)
