"""Searches the work of a run for secrets before it leaves the installation.

A session may have secrets in its jail, and a program or the agent may write one into a file. The
values of all stored secrets are searched for, and the shapes of well-known credentials. A text
that the file had before the work does not count: it was published by somebody else.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from hutch.domain.redaction import Redactor
from hutch.forge.host_git import Git, GitFailed
from hutch.snapshots.git_object_reader import GITLINK, GitObjects
from hutch.snapshots.git_storage import Snapshot
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import printable
from hutch.workspace.workspace import Workspace

TIMEOUT_S = 60.0
WINDOW_BYTES = 4 * 1024 * 1024  # searched at once
MAX_FOUND = 10
VALUE = "secret"  # the name that a redactor gives to a stored value
NO_OBJECT = "0" * 40
STORED = (
    "{files} the value of a stored secret. Ask the agent to remove it: the next run of the session delivers "
    "the work without it."
)
SUSPECTED = "{files}. If it is a real one, ask the agent to remove it; otherwise confirm the delivery."


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """A file of the work with a secret in its content or its path."""

    path: str
    kind: str  # `secret` for a stored value, otherwise the shape, such as `github_token`

    @property
    def is_stored(self) -> bool:
        return self.kind == VALUE


@dataclass(frozen=True, slots=True)
class SecretSearch:
    """The secrets that keep a work from being delivered."""

    refused: list[FoundSecret]  # stored values come first
    start_has_secrets: bool = False  # the state before the run had some: it must not become a commit


async def search_work(
    workspace: Workspace,
    redactor: Redactor,
    *,
    delivered: Sequence[str],
    start: Snapshot,
    last: Snapshot,
    only_stored: bool = False,
) -> SecretSearch:
    """Search a run's work. `delivered` are the commits of earlier runs, whose texts do not count."""
    assert workspace.record.commit is not None
    for base in (*reversed(delivered), workspace.record.commit):
        try:
            refused = await find_secrets(workspace, redactor, base, last.tree)
            before = await find_secrets(workspace, redactor, base, start.tree)
        except GitFailed:
            if base == workspace.record.commit:
                raise
            continue  # that commit is no longer stored
        gone = set(before) - set(refused)
        refused = [each for each in refused if each.is_stored or not only_stored]
        return SecretSearch(refused, start_has_secrets=bool(gone))
    raise AssertionError("the workspace's own commit was not searched")


async def find_secrets(workspace: Workspace, redactor: Redactor, old: str, new: str) -> list[FoundSecret]:
    """The secrets that files of `new` have and those of `old` do not; both are trees or commits."""
    storage = workspace.snapshots.storage
    changed = await _changed_files(workspace.git, storage.git_dir, old, new)
    return await asyncio.to_thread(_search, storage.objects, redactor, changed)


def describe_secrets(found: Sequence[FoundSecret]) -> str:
    """The reason why the work is not delivered."""
    if stored := [each for each in found if each.is_stored]:
        names = ", ".join(f"'{printable(each.path)}'" for each in stored[:MAX_FOUND])
        return STORED.format(files=f"{names} {'contains' if len(stored) == 1 else 'contain'}")
    named = (
        f"'{printable(each.path)}' contains what looks like a credential ({each.kind})"
        for each in found[:MAX_FOUND]
    )
    return SUSPECTED.format(files=", ".join(named))


@dataclass(frozen=True, slots=True)
class _ChangedFile:
    path: str
    old: str  # names of objects; empty if there is none
    new: str


async def _changed_files(git: Git, git_dir: Path, old: str, new: str) -> list[_ChangedFile]:
    words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
    printed = await git.run(*words, git_dir=git_dir, timeout_s=TIMEOUT_S)
    fields = iter(printed.split(b"\0"))
    found = []
    for field in fields:
        if not field:
            continue
        old_mode, new_mode, old_object, new_object, _ = field[1:].decode().split(" ")
        path = os.fsdecode(next(fields))
        if new_object == NO_OBJECT or int(new_mode, 8) == GITLINK:
            continue
        is_new = old_object == NO_OBJECT or int(old_mode, 8) == GITLINK
        found.append(_ChangedFile(path, "" if is_new else old_object, new_object))
    return found


def _search(objects: GitObjects, redactor: Redactor, changed: list[_ChangedFile]) -> list[FoundSecret]:
    found: list[FoundSecret] = []
    for file in changed:
        kinds = _secrets(redactor, [os.fsencode(file.path)] if not file.old else [])
        kinds |= _secrets(redactor, objects.chunks(bytes.fromhex(file.new)))
        if kinds and file.old:
            kinds -= _secrets(redactor, objects.chunks(bytes.fromhex(file.old)))
        path = redactor.redact(file.path)  # the path itself may have one
        found += [FoundSecret(path, kind) for kind in sorted({kind for kind, _ in kinds})]
    return sorted(found, key=lambda each: not each.is_stored)


def _secrets(redactor: Redactor, chunks: Iterator[bytes] | list[bytes]) -> set[tuple[str, str]]:
    """The kinds and texts of the secrets in some bytes."""
    found: set[tuple[str, str]] = set()
    for part in _windows(chunks, overlap=max(redactor.window, WINDOW_BYTES // 64)):
        found |= redactor.find_secrets(part.decode("utf-8", "surrogateescape"))
    return found


def _windows(chunks: Iterator[bytes] | list[bytes], *, overlap: int) -> Iterator[bytes]:
    """The bytes in large parts that overlap, so that no secret is cut."""
    held = b""
    for chunk in chunks:
        held += chunk
        if len(held) >= WINDOW_BYTES:
            yield held
            held = held[-overlap:]
    if held:
        yield held
