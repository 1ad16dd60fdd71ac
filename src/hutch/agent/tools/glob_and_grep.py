"""glob and grep: find files and directories by path, newest first, and files by content."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.agent.tools.model_written_paths import resolve_path
from hutch.domain.errors import LimitReached
from hutch.workspace.multiline_secrets_in_matches import hide_across_lines
from hutch.workspace.ripgrep_search import GrepOutput, GrepQuery, GrepResult
from hutch.workspace.rule_based_search_filter import HiddenFiles, IsHidden
from hutch.workspace.search_match_redaction import Line, redact_lines


class GlobArguments(Arguments):
    pattern: str
    path: str = ""
    directories: bool = False
    limit: int = Field(200, ge=1, le=5000)

    def searched(self) -> str:
        return self.path


class Glob:
    name: ClassVar[str] = "glob"
    description: ClassVar[str] = (
        "Find files by path, newest first: '**/*.py', 'src/*.{ts,tsx}'. directories: find these instead."
    )
    arguments: ClassVar[type[Arguments]] = GlobArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, args: GlobArguments, context: Context) -> ToolResult:
        path = await resolve_path(args.path, context)
        found = await context.workspace.glob(
            context.jail,
            args.pattern,
            path=path,
            limit=args.limit,
            directories=args.directories,
            ignore=context.ignore,
            hidden=context.hides and context.hides(self.name, path),
        )
        data = {"paths": found.paths, "total": found.total, "cut": found.cut}
        if not found.paths:
            what = "directory" if args.directories else "file"
            return ToolResult(f"No {what} matches. list_directory shows what is there.", data=data)
        cut = f"({found.total:,} in all; shown: the newest {args.limit}. Narrow the pattern, or raise limit.)"
        return ToolResult("\n".join([*found.paths, *([cut] if found.cut else [])]), data=data)


LINE_CHARS = 500
IGNORED_TIMEOUT_S = 2.0  # for counting matches in ignored files
MAX_COUNTED_FILES = 10_000


class GrepArguments(Arguments):
    pattern: str
    path: str = ""
    glob: str | None = None
    ignore_case: bool = False
    multiline: bool = False
    context: int = Field(0, ge=0, le=50)
    limit: int = Field(100, ge=1, le=2000)
    output: GrepOutput = "content"
    include_ignored: bool = False

    def searched(self) -> str:
        return self.path


class GrepTool:
    name: ClassVar[str] = "grep"
    description: ClassVar[str] = (
        "Search files with a regular expression (ripgrep). glob: only these files, such as '*.py'. "
        "include_ignored: also files that .gitignore lists."
    )
    arguments: ClassVar[type[Arguments]] = GrepArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, args: GrepArguments, context: Context) -> ToolResult:
        path = await resolve_path(args.path, context)
        query = GrepQuery(**{**args.model_dump(), "path": path})
        hidden = context.hides and context.hides(self.name, path)
        found = await context.workspace.grep(
            context.jail, query, ignore=context.ignore, hidden=hidden, mask=context.mask
        )
        ignored = await _count_ignored(query, found, context, hidden)
        tree, lines = context.workspace.mount.directory, found.lines
        lines = await context.workspace.work(hide_across_lines, tree, lines, context.redactor.mask)
        found = replace(found, lines=await asyncio.to_thread(_shown, lines, context))
        data = {
            "total": found.total,
            "cut": found.cut,
            "ignored": ignored,
            "paths": found.paths,
            "counts": found.counts,
            "lines": [
                {"path": line.path, "line": line.number, "text": line.text, "matched": line.matched}
                for line in found.lines
            ],
        }
        notes = [_describe_ignored(ignored, query, found)]
        notes += [hidden.describe()] if isinstance(hidden, HiddenFiles) else []
        text = "\n".join(filter(None, [_text(found, args), *notes]))
        return ToolResult(text, data={name: value for name, value in data.items() if value != []})


async def _count_ignored(
    query: GrepQuery, found: GrepResult, context: Context, hidden: IsHidden | None
) -> int | None:
    """How many more matches, or files, there are in files that `.gitignore` files list. None: not counted,
    because they are searched anyway, there are too many results already, or it would take too long."""
    if query.include_ignored or found.cut:
        return None
    every = replace(
        query,
        include_ignored=True,
        output="files" if query.output == "files" else "count",
        limit=MAX_COUNTED_FILES,
        timeout_s=IGNORED_TIMEOUT_S,
    )
    try:
        counted = await context.workspace.grep(
            context.jail, every, ignore=context.ignore, hidden=hidden, mask=context.mask
        )
    except LimitReached:
        return None
    return max(0, counted.total - found.total)


def _describe_ignored(ignored: int | None, query: GrepQuery, found: GrepResult) -> str:
    if ignored is None:
        return (
            "" if query.include_ignored or found.cut else "(Files that .gitignore lists were not searched.)"
        )
    if not ignored:
        return ""
    what = "files" if query.output == "files" else "matches in files"
    return f"(More {what} that .gitignore lists: {ignored:,}. Pass include_ignored to see them.)"


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
