"""list_directory: a directory as a tree, level by level until there are too many entries."""

from collections.abc import Iterable
from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.agent.tools.model_written_paths import resolve_path
from hutch.snapshots.ignore_rules import IgnoreRules
from hutch.workspace.files.directory_listing import Entry
from hutch.workspace.rule_based_search_filter import IsHidden

DEFAULT_DEPTH, MAX_DEPTH = 2, 8
DEFAULT_ENTRIES, MAX_ENTRIES = 300, 2000
UNITS = ("B", "kB", "MB", "GB", "TB")
MAX_TARGET_CHARS = 200  # of a link


class ListDirectoryArguments(Arguments):
    path: str = ""
    depth: int = Field(DEFAULT_DEPTH, ge=1, le=MAX_DEPTH)
    limit: int = Field(DEFAULT_ENTRIES, ge=1, le=MAX_ENTRIES)
    include_ignored: bool = False

    def searched(self) -> str:
        return self.path


class ListDirectory:
    name: ClassVar[str] = "list_directory"
    description: ClassVar[str] = "List a directory as a tree with sizes; depth: levels (2)."
    arguments: ClassVar[type[Arguments]] = ListDirectoryArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, args: ListDirectoryArguments, context: Context) -> ToolResult:
        path = await resolve_path(args.path, context)
        hidden = context.hides(self.name, path) if context.hides else None
        tree = _Tree(context, args, hidden)
        await tree.read(path)
        entries = [entry for found in tree.directories.values() for entry in found]
        data = {
            "path": path,
            "entries": [{"path": each.path, "kind": each.kind, "size": each.size} for each in entries],
            "cut": tree.is_cut,
            "ignored": tree.ignored,
        }
        lines = [*tree.lines(path), *tree.notes()]
        return ToolResult("\n".join(lines) or "(the directory is empty)", data=data)


class _Tree:
    """The entries of a directory and of those below it, read breadth first: a large directory must not hide
    its neighbours."""

    def __init__(self, context: Context, args: ListDirectoryArguments, hidden: IsHidden | None) -> None:
        self.directories: dict[str, list[Entry]] = {}  # entries by directory
        self.cut: set[str] = set()  # directories with more entries than are listed
        self.is_cut = False
        self.ignored = 0
        self._context, self._args, self._hidden = context, args, hidden
        self._remaining = args.limit
        # The patterns of the settings hide files from the agent, whatever it asks for.
        self._rules = IgnoreRules().enter("", "\n".join(context.ignore).encode(errors="replace"))

    async def read(self, path: str) -> None:
        level = [path]
        for _ in range(self._args.depth):
            below: list[str] = []
            for directory in level:
                if self._remaining <= 0:
                    self.is_cut = True
                    return
                below += [entry.path for entry in await self._read(directory) if entry.kind == "directory"]
            level = below

    async def _read(self, directory: str) -> list[Entry]:
        entries = await self._list(directory, ignores=not self._args.include_ignored)
        if not self._args.include_ignored:
            everything = await self._list(directory, ignores=False)
            self.ignored += max(0, len(everything) - len(entries))
        if len(entries) > self._remaining:
            self.is_cut = True
            self.cut.add(directory)
            del entries[self._remaining :]
        self._remaining -= len(entries)
        self.directories[directory] = entries
        return entries

    async def _list(self, directory: str, *, ignores: bool) -> list[Entry]:
        page = await self._context.workspace.entries(directory, ignores=ignores, limit=self._remaining + 1)
        return [entry for entry in page.entries if not self._is_hidden(entry)]

    def _is_hidden(self, entry: Entry) -> bool:
        return (
            entry.path.rpartition("/")[2] == ".git"
            or self._rules.match(entry.path, entry.kind == "directory")
            or (self._hidden is not None and self._hidden(entry.path))
        )

    def lines(self, directory: str, indent: str = "") -> Iterable[str]:
        for entry in self.directories.get(directory, ()):
            name = entry.path.rpartition("/")[2]
            match entry.kind:
                case "directory":
                    is_open = entry.path in self.directories
                    yield f"{indent}{name}/{'' if is_open else ' …'}"
                    yield from self.lines(entry.path, f"{indent}  ")
                case "link":
                    yield f"{indent}{name} -> {(entry.target or '')[:MAX_TARGET_CHARS]}"
                case "file":
                    yield f"{indent}{name}  {describe_size(entry.size)}"
                case _:
                    yield f"{indent}{name}  (neither file nor directory)"
        if directory in self.cut:
            yield f"{indent}… more entries"

    def notes(self) -> Iterable[str]:
        if self.is_cut:
            yield f"(Cut at {self._args.limit:,} entries. Name a directory below, or raise limit.)"
        if self.ignored:
            yield f"(Left out: {self.ignored:,} that .gitignore lists; pass include_ignored to see them.)"


def describe_size(size: int) -> str:
    """A size with up to three digits: `17 kB`."""
    amount, unit = float(size), 0
    while amount >= 999.5 and unit < len(UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {UNITS[unit]}" if unit == 0 or amount >= 9.95 else f"{amount:.1f} {UNITS[unit]}"
