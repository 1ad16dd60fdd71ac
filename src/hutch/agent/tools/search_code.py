"""search_code and outline: find code by words and symbols, and show what files define."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from hutch.agent.tools.interface import Arguments, Context, ToolResult
from hutch.agent.tools.model_written_paths import resolve_path
from hutch.snapshots.ignore_rules import IgnoreRules
from hutch.workspace.code_search.code_index import IndexState
from hutch.workspace.code_search.outline import render_outlines
from hutch.workspace.code_search.ranked_matches import CodeMatch, CodeQuery
from hutch.workspace.code_search.search_by_meaning import NearFound
from hutch.workspace.code_search.workspace_code_search import outline_code, search_code
from hutch.workspace.rule_based_search_filter import HiddenFiles, IsHidden

LINE_CHARS = 300
OUTLINE_CHARS = 12_000


class SearchCodeArguments(Arguments):
    query: str = Field(min_length=1, max_length=4_000)
    path: str = ""
    limit: int = Field(10, ge=1, le=50)

    def searched(self) -> str:
        return self.path


class SearchCode:
    name: ClassVar[str] = "search_code"
    description: ClassVar[str] = "Find code by the words of a question, or a symbol. For exact text, grep."
    arguments: ClassVar[type[Arguments]] = SearchCodeArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, args: SearchCodeArguments, context: Context) -> ToolResult:
        path = await resolve_path(args.path, context)
        hidden = context.hides and context.hides(self.name, path)
        found = await search_code(
            context.workspace,
            CodeQuery(
                text=args.query,
                below=path,
                limit=args.limit,
                is_hidden=hidden_files(context.ignore, hidden),
                mask=context.redactor.mask,
                omits_secrets=context.mask is not None,
            ),
            context.embedder,
        )
        data = {
            "matches": [
                {
                    "path": each.path,
                    "first_line": each.first_line,
                    "last_line": each.last_line,
                    "symbol": each.symbol,
                    "kind": each.kind,
                    "why": each.why,
                    "lines": [{"line": number, "text": text[:LINE_CHARS]} for number, text in each.lines],
                }
                for each in found.matches
            ],
            "missing": found.state.missing,
        }
        shown = [_text(each) for each in found.matches] or ["No match. Try other words, or grep."]
        notes = [*_notes(found.state, hidden), *_meaning_notes(found.by_meaning)]
        return ToolResult("\n".join([*shown, *notes]), data=data)


class OutlineArguments(Arguments):
    path: str = ""

    def searched(self) -> str:
        return self.path


class Outline:
    name: ClassVar[str] = "outline"
    description: ClassVar[str] = "The symbols of a file, or of the files in a directory."
    arguments: ClassVar[type[Arguments]] = OutlineArguments
    parallel: ClassVar[bool] = True

    async def __call__(self, args: OutlineArguments, context: Context) -> ToolResult:
        path = await resolve_path(args.path, context)
        hidden = context.hides and context.hides(self.name, path)
        found = await outline_code(context.workspace, path, hidden_files(context.ignore, hidden))
        text = render_outlines(found.outlines, path, OUTLINE_CHARS)
        data = {
            "path": path,
            "text": text,
            "files": len(found.outlines),
            "missing": found.state.missing,
        }
        return ToolResult("\n".join([text, *_notes(found.state, hidden)]), data=data)


def hidden_files(ignored: Sequence[str], hidden: IsHidden | None) -> IsHidden:
    """A filter for the files that rules hide, and those that the settings ignore."""
    patterns = "\n".join(ignored).encode()
    rules = IgnoreRules().enter("", patterns) if patterns else None

    def is_hidden(path: str) -> bool:
        if hidden is not None and hidden(path):
            return True
        parts = path.split("/")
        return rules is not None and any(
            rules.match("/".join(parts[:end]), is_directory=end < len(parts))
            for end in range(1, len(parts) + 1)
        )

    return is_hidden


def _text(match: CodeMatch) -> str:
    around = f" {match.kind} {match.symbol}" if match.symbol else ""
    head = f"{match.path}:{match.first_line}-{match.last_line}{around} ({match.why})"
    return "\n".join([head, *(f"{number:>6}: {text[:LINE_CHARS]}" for number, text in match.lines)])


def _notes(state: IndexState, hidden: IsHidden | None) -> Sequence[str]:
    notes = []
    if state.missing:
        notes.append(f"({state.missing:,} of {state.files:,} files are not indexed yet. Search again.)")
    if state.is_cut:
        notes.append(f"(Only {state.files:,} files are indexed: the repository has more.)")
    if isinstance(hidden, HiddenFiles) and hidden.rules:
        notes.append(hidden.describe())
    return notes


def _meaning_notes(found: NearFound) -> Sequence[str]:
    notes = []
    if found.problem:
        notes.append(f"(Searched by words only. {found.problem})")
    if found.missing:
        notes.append(f"({found.missing:,} files are searched by words only so far. Search again.)")
    return notes
