"""Searches and outlines of an open workspace, at its present state."""

import os
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from hutch.store.code_index_database import CodeIndexTables
from hutch.workspace.code_search.code_index import UPDATE_TIMEOUT_S, IndexState, open_current_index
from hutch.workspace.code_search.outline import FileOutline, find_outlines
from hutch.workspace.code_search.ranked_matches import CodeMatch, CodeQuery, find_matches
from hutch.workspace.code_search.repository_map import MappedFile, rank_files, render_map
from hutch.workspace.code_search.search_by_meaning import Embeds, NearFound, find_near
from hutch.workspace.code_search.search_words import query_words
from hutch.workspace.workspace import Workspace

Result = TypeVar("Result")
MAP_TIMEOUT_S = 2.0  # for the index of a new session: its first model request waits for it


class FoundCode(NamedTuple):
    """The matches of a query, and how complete the index was."""

    matches: list[CodeMatch]
    state: IndexState
    by_meaning: NearFound = NearFound()


class FoundOutlines(NamedTuple):
    """Outlines of files, and how complete the index was."""

    outlines: list[FileOutline]
    state: IndexState


async def search_code(workspace: Workspace, query: CodeQuery, embedder: Embeds | None = None) -> FoundCode:
    """The best matches of a query, one for each file; with a model also those that are near in meaning."""
    objects, found = workspace.snapshots.storage.objects, NearFound()
    if embedder is not None:
        files, _ = await _with_index(workspace, CodeIndexTables.files)
        seen = {path: blob for path, blob in files.items() if not query.is_hidden(os.fsdecode(path))}
        found = await find_near(workspace, embedder, query.text, seen, query.mask or bytes)
    matches, state = await _with_index(
        workspace, lambda tables: find_matches(tables, objects, query, found.near)
    )
    return FoundCode(matches, state, found)


async def outline_code(workspace: Workspace, below: str, is_hidden: Callable[[str], bool]) -> FoundOutlines:
    """The symbols of a file, or of the files in a directory."""
    return FoundOutlines(
        *await _with_index(workspace, lambda tables: find_outlines(tables, below, is_hidden))
    )


async def map_repository(
    workspace: Workspace, query: CodeQuery, max_chars: int, *, timeout_s: float = MAP_TIMEOUT_S
) -> str:
    """A map of the repository for a task; empty if it is small, or cannot be indexed in a short time."""
    objects = workspace.snapshots.storage.objects

    def work(tables: CodeIndexTables) -> tuple[list[MappedFile], list[CodeMatch]]:
        files = rank_files(tables) if tables.tree else []
        return files, find_matches(tables, objects, query) if files and query_words(query.text) else []

    (files, matches), _ = await _with_index(workspace, work, timeout_s=timeout_s)
    return render_map(files, matches, query.is_hidden, max_chars)


async def _with_index(
    workspace: Workspace, work: Callable[[CodeIndexTables], Result], *, timeout_s: float = UPDATE_TIMEOUT_S
) -> tuple[Result, IndexState]:
    """Use the index, brought up to the present files. Blocking work runs in a thread."""
    taken = await workspace.snapshot("before a code search")
    tree = bytes.fromhex(taken.tree)

    def run() -> tuple[Result, IndexState]:
        with open_current_index(workspace.directory, workspace.snapshots, tree, timeout_s=timeout_s) as (
            tables,
            state,
        ):
            return work(tables), state

    return await workspace.work(run)
