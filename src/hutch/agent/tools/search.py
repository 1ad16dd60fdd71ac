"""glob and grep: find files by path, newest first, and by content."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.agent.tools.paths import resolve_path
from hutch.workspace.cross_line_secrets import hide_across_lines
from hutch.workspace.match_redaction import Line, redact_lines
from hutch.workspace.search import GrepOutput, GrepQuery, GrepResult


class GlobArguments(Arguments):
    pattern: str
    path: str = ""
    limit: int = Field(200, ge=1, le=5000)

    def searched(self) -> str:
        return self.path


class Glob:
    name: ClassVar[str] = "glob"
    description: ClassVar[str] = "Find files by path, newest first: '**/*.py', 'src/*.{ts,tsx}'."
    arguments: ClassVar[type[Arguments]] = GlobArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, args: GlobArguments, context: Context) -> ToolResult:
        path = await resolve_path(args.path, context)
        found = await context.workspace.glob(
            context.jail,
            args.pattern,
            path=path,
            limit=args.limit,
            ignore=context.ignore,
            hidden=context.hides and context.hides(self.name, path),
        )
        data = {"paths": found.paths, "total": found.total, "cut": found.cut}
        if not found.paths:
            return ToolResult("No file matches. Try '**/*' to list all files.", data=data)
        cut = f"({found.total:,} in all; shown: the newest {args.limit}. Narrow the pattern, or raise limit.)"
        return ToolResult("\n".join([*found.paths, *([cut] if found.cut else [])]), data=data)


LINE_CHARS = 500


class GrepArguments(Arguments):
    pattern: str
    path: str = ""
    glob: str | None = None
    ignore_case: bool = False
    multiline: bool = False
    context: int = Field(0, ge=0, le=50)
    limit: int = Field(100, ge=1, le=2000)
    output: GrepOutput = "content"

    def searched(self) -> str:
        return self.path


class GrepTool:
    name: ClassVar[str] = "grep"
    description: ClassVar[str] = (
        "Search files with a regular expression (ripgrep). glob narrows the files, for example '*.py'. "
        "output: content, files or count."
    )
    arguments: ClassVar[type[Arguments]] = GrepArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, args: GrepArguments, context: Context) -> ToolResult:
        path = await resolve_path(args.path, context)
        query = GrepQuery(**{**args.model_dump(), "path": path})
        hidden = context.hides and context.hides(self.name, path)
        found = await context.workspace.grep(context.jail, query, ignore=context.ignore, hidden=hidden)
        tree, lines = context.workspace.mount.directory, found.lines
        lines = await context.workspace.work(hide_across_lines, tree, lines, context.redactor.mask)
        found = replace(found, lines=await asyncio.to_thread(_shown, lines, context))
        data = {
            "total": found.total,
            "cut": found.cut,
            "paths": found.paths,
            "counts": found.counts,
            "lines": [
                {"path": line.path, "line": line.number, "text": line.text, "matched": line.matched}
                for line in found.lines
            ],
        }
        return ToolResult(
            _text(found, args), data={name: value for name, value in data.items() if value != []}
        )


def _shown(lines: Sequence[Line], context: Context) -> list[Line]:
    """The lines, redacted and then cut, since half of a secret would not be recognised."""
    clean = redact_lines(
        lines,
        clean=context.redactor.redact,
        settle=context.redactor.drop_partial_secret,
        mask=context.redactor.mask,
    )
    return [replace(line, text=_cut(line.text)) for line in clean]


def _cut(text: str) -> str:
    return text if len(text) <= LINE_CHARS else f"{text[:LINE_CHARS]}… (the line is longer)"


def _text(found: GrepResult, args: GrepArguments) -> str:
    if not found.total:
        return "No match. Try another pattern or path, or ignore_case."
    shown = [
        *found.paths,
        *(f"{path}: {count}" for path, count in found.counts.items()),
        *(
            f"{path}\n"
            + "\n".join(f"{line.number:>6}{':' if line.matched else '-'} {line.text}" for line in lines)
            for path, lines in groupby(found.lines, key=lambda line: line.path)
        ),
    ]
    if found.latin1:
        shown.append("(no match in UTF-8; these files were read as Latin-1)")
    if found.cut:
        shown.append(
            f"({found.total:,} in all; shown: the first {args.limit}. Narrow the pattern, or raise limit.)"
        )
    return "\n".join(shown)
