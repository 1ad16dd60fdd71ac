"""The lines of a workspace whose meaning is near to that of a query, by the vectors of an embedding model.

Only new contents are sent to the model, without known secrets. The vectors of a base's files are stored
beside it, for all its workspaces. A search sends a bounded number of texts; the next one continues.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog

from hutch.domain.errors import HutchError
from hutch.snapshots.git_object_reader import GitObjects
from hutch.store.code_vector_database import CodeVectorTables, FilePart, VectorsDamaged, remove_vectors
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.code_search.code_index import MAX_FILES, read_text
from hutch.workspace.code_search.git_tree_files import list_files
from hutch.workspace.code_search.ranked_matches import NearLines
from hutch.workspace.code_search.symbols_and_references import language_of
from hutch.workspace.workspace import Workspace

FILE = "code-vectors.sqlite"
PART_LINES, PART_CHARS, MAX_PARTS = 60, 4_000, 30  # of one file
MAX_DATA_CHARS = 50_000  # of a file in no known language: a larger one is data
BATCH_FILES, BATCH_TEXTS = 32, 64
MAX_TEXTS = 6_000  # that one search sends
TIMEOUT_S = 20.0
NEAREST = 60
logger = structlog.get_logger()


class Embeds(Protocol):
    """A model that turns texts into vectors."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> list[bytes]: ...


class NearFound(NamedTuple):
    """The nearest lines, one of each file, the best first."""

    near: tuple[NearLines, ...] = ()
    missing: int = 0  # files whose vectors are not there yet
    problem: str = ""  # why there are no vectors


class _Text(NamedTuple):
    blob: bytes
    first_line: int
    last_line: int
    text: str


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of one state of a workspace, and where their vectors are."""

    paths: Mapping[bytes, bytes]  # by blob
    objects: GitObjects
    model: str
    own: Path
    shared: Path | None
    base_tree: bytes | None

    def missing(self) -> list[bytes]:
        known = {blob for store in self._stores() for blob in store.known()}
        return sorted((blob for blob in self.paths if blob not in known), key=lambda blob: self.paths[blob])

    def read(self, blobs: Sequence[bytes], clean: Callable[[bytes], bytes]) -> list[_Text]:
        texts: list[_Text] = []
        for blob in blobs:
            path = os.fsdecode(self.paths[blob])
            text = read_text(self.objects, blob, clean)
            if language_of(path) or len(text) <= MAX_DATA_CHARS:
                texts += _parts(blob, path, text)
        return texts

    def add(self, blobs: Sequence[bytes], texts: Sequence[_Text], vectors: Sequence[bytes]) -> None:
        parts: dict[bytes, list[FilePart]] = {blob: [] for blob in blobs}
        for each, vector in zip(texts, vectors, strict=True):
            parts[each.blob].append(FilePart(each.first_line, each.last_line, vector))
        of_base = self._blobs_of_base()
        for path, belongs in ((self.shared, True), (self.own, False)):
            chosen = [(blob, parts[blob]) for blob in blobs if (blob in of_base) == belongs]
            if path is not None and chosen:
                with closing(CodeVectorTables(path, self.model)) as store:
                    store.add(chosen)

    def nearest(self, vector: bytes) -> tuple[NearLines, ...]:
        with ExitStack() as stack:
            stores = [stack.enter_context(closing(each)) for each in self._stores()]
            found = sorted(
                (each for store in stores for each in store.find(vector, self.paths, NEAREST)),
                key=lambda each: each.distance,
            )
        best: dict[bytes, NearLines] = {}
        for each in found:
            best.setdefault(each.blob, NearLines(self.paths[each.blob], each.first_line, each.last_line))
        return tuple(best.values())[:NEAREST]

    def _stores(self) -> Iterator[CodeVectorTables]:
        for path in (self.shared, self.own):
            if path is not None and path.exists():
                yield CodeVectorTables(path, self.model)

    def _blobs_of_base(self) -> set[bytes]:
        if self.shared is None or self.base_tree is None:
            return set()
        return {blob for _, blob in islice(list_files(self.objects, self.base_tree), MAX_FILES)}

    def remove(self) -> None:
        for path in filter(None, (self.shared, self.own)):
            remove_vectors(path)


async def find_near(
    workspace: Workspace,
    embedder: Embeds,
    query: str,
    files: Mapping[bytes, bytes],
    clean: Callable[[bytes], bytes],
) -> NearFound:
    """The lines nearest to a query in these files, given as the blob of each path. A model that fails is a
    problem, not an error: the words of the query still find files."""
    base = workspace.snapshots.base
    state = _Files(
        {blob: path for path, blob in files.items()},
        workspace.snapshots.storage.objects,
        embedder.name,
        workspace.directory / FILE,
        base.path.with_name(FILE) if base is not None else None,
        base.top.files if base is not None else None,
    )
    try:
        missing = await _complete(workspace, embedder, state, clean)
        (vector,) = await embedder.embed([query[:PART_CHARS]])
        return NearFound(await workspace.work(state.nearest, vector), missing)
    except HutchError as error:
        return NearFound(problem=str(error))
    except VectorsDamaged as error:  # they are computed again
        logger.warning("the vectors of a code index are removed", error=str(error))
        await workspace.work(state.remove)
        return NearFound(problem="The vectors were damaged. Search again.")


async def _complete(
    workspace: Workspace, embedder: Embeds, state: _Files, clean: Callable[[bytes], bytes]
) -> int:
    """Add the missing vectors, as far as time and number allow; returns how many files still miss theirs."""
    until, sent = time.monotonic() + TIMEOUT_S, 0
    missing = await workspace.work(state.missing)
    done = 0
    while done < len(missing) and sent < MAX_TEXTS and time.monotonic() < until:
        batch = missing[done : done + BATCH_FILES]
        texts = await workspace.work(state.read, batch, clean)
        vectors: list[bytes] = []
        for start in range(0, len(texts), BATCH_TEXTS):
            vectors += await embedder.embed([each.text for each in texts[start : start + BATCH_TEXTS]])
        await workspace.work(state.add, batch, texts, vectors)
        done, sent = done + len(batch), sent + len(texts)
    return len(missing) - done


def _parts(blob: bytes, path: str, text: str) -> Iterator[_Text]:
    """Parts of some lines each, with the path before them."""
    lines = text.split("\n")
    for start in range(0, min(len(lines), PART_LINES * MAX_PARTS), PART_LINES):
        part = lines[start : start + PART_LINES]
        body = "\n".join(part).strip()
        if body:
            yield _Text(blob, start + 1, start + len(part), f"{path}\n{body}"[:PART_CHARS])
