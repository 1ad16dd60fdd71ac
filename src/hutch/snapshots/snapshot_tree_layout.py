"""The layout of a directory in git objects.

A snapshot holds three trees of the same shape. `files` is the tree that git would
commit, with the same names and object ids. `beside` has the rest of the content:
ignored files, `.git` directories, names that git refuses. `manifest` has what trees
cannot express: modes, empty directories, and omitted entries. A directory without
content for a tree is absent from it, so each tree costs only what it holds.
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from hutch.snapshots.git_object_reader import EMPTY_TREE, GITLINK, LINK, TREE, GitObjects, format_tree
from hutch.snapshots.pack_writer import PackWriter
from hutch.system.chunked_collection_operations import chunks, sort_in_chunks

# Sections of a snapshot: tracked by git; outside git, always stored; ignored, stored within a size limit.
FILES, PRIVATE, IGNORED = 0, 1, 2
PERMISSIONS = 0o1777  # a set-user-id bit is not content
DEFAULT_FILE_MODE, DEFAULT_PROGRAM_MODE, DEFAULT_DIRECTORY_MODE = 0o644, 0o755, 0o755
PLAIN_FILE = stat.S_IFREG | DEFAULT_FILE_MODE  # the mode of most files, here and in git
_LARGE_NOTES_BYTES = 1 << 18  # bytes
NOTES = b"="  # in `manifest`; its subdirectories are named `+name`

# Names that git refuses to track, including their aliases on other file systems.
_IGNORABLE = rb"(?:\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf)*"
_REFUSED = re.compile(
    rb"(?:\.git|git~1)[. ]*(?:[\\:].*)?|"
    + _IGNORABLE
    + _IGNORABLE.join(re.escape(bytes([char])) for char in b".git")
    + _IGNORABLE,
    re.IGNORECASE | re.DOTALL,
)
_SHORT = b"|".join(b"gi7eba"[:length] + rb"~[1-9]\d{%d}" % (6 - length) for length in range(7))
_REFUSED_UNLESS_PLAIN = re.compile(
    rb"(?:\.gitmodules|gitmod~[1-4]|"
    + _SHORT
    + rb")[. ]*(?:[\\:].*)?|"
    + _IGNORABLE
    + _IGNORABLE.join(re.escape(bytes([char])) for char in b".gitmodules")
    + _IGNORABLE,
    re.IGNORECASE | re.DOTALL,
)


def stored_mode(mode: int) -> int:
    """The mode of a file or a link as a snapshot has it."""
    return stat.S_IFLNK | 0o777 if stat.S_ISLNK(mode) else stat.S_IFMT(mode) | mode & PERMISSIONS


class Leaf(NamedTuple):
    """A file or a link."""

    mode: int  # file type and permissions
    name: bytes  # of its blob
    section: int  # FILES, PRIVATE or IGNORED
    size: int  # -1: unknown


class Branch(NamedTuple):
    """A directory, as the trees of its content."""

    permissions: int
    files: bytes | None
    beside: bytes | None
    notes: bytes | None
    link: bytes | None  # the commit, if it is a submodule
    file_count: int  # files that git would commit
    size: int
    ignored_size: int
    omitted: int

    @property
    def trees(self) -> tuple[bytes | None, bytes | None, bytes | None, bytes | None]:
        """Equal for equal content."""
        return (self.files, self.beside, self.notes, self.link)


class OmittedEntry(NamedTuple):
    """An entry that was found but not stored."""

    reason: str
    size: int


Item = Leaf | Branch | OmittedEntry
EMPTY_BRANCH = Branch(DEFAULT_DIRECTORY_MODE, None, None, None, None, 0, 0, 0, 0)


def is_refused_by_git(name: bytes, *, plain: bool) -> bool:
    """True if git would refuse this name; it refuses more names of links and directories."""
    return _REFUSED.fullmatch(name) is not None or (
        not plain and _REFUSED_UNLESS_PLAIN.fullmatch(name) is not None
    )


def build_branch(
    items: Mapping[str, Item],
    writer: PackWriter,
    *,
    permissions: int,
    link: bytes | None,
    known: AbstractSet[bytes],
) -> Branch:
    """Write the trees of one directory. Objects in `known` are stored already."""
    files: list[tuple[int, bytes, bytes]] = []
    beside: list[tuple[int, bytes, bytes]] = []
    below: list[tuple[int, bytes, bytes]] = []
    notes: dict[str, dict[str, object]] = {}
    count = size = ignored_size = omitted = 0
    for name, item in items.items():
        raw = name.encode("utf-8", "surrogateescape")  # as os.fsencode, which takes three times as long
        if isinstance(item, Leaf):
            mode = item.mode
            if mode != PLAIN_FILE and default_mode(mode) != mode:
                notes.setdefault("modes", {})[_encode_name(name)] = mode & PERMISSIONS
            git = PLAIN_FILE if mode == PLAIN_FILE else git_mode(mode)
            if item.section == FILES:
                files.append((git, raw, item.name))
                count, size = count + 1, size + item.size
            else:
                beside.append((git, b"+" + raw, item.name))
                ignored_size += item.size if item.section == IGNORED else 0
        elif isinstance(item, Branch):
            if item.permissions != DEFAULT_DIRECTORY_MODE:
                notes.setdefault("modes", {})[_encode_name(name)] = item.permissions
            if item.link:
                files.append((GITLINK, raw, item.link))
            elif item.files:
                files.append((TREE, raw, item.files))
            if item.beside:
                beside.append((TREE, b"+" + raw, item.beside))
            if item.notes:
                below.append((TREE, b"+" + raw, item.notes))
            count, size = count + item.file_count, size + item.size
            ignored_size, omitted = ignored_size + item.ignored_size, omitted + item.omitted
        else:
            notes.setdefault("absent", {})[_encode_name(name)] = [item.reason, item.size]
            omitted += 1
    if notes or not (files or beside or below):
        below.append((0o100644, NOTES, writer.add("blob", _format_notes(notes))))
    return Branch(
        permissions=permissions,
        files=_tree(files, writer, known),
        beside=_tree(beside, writer, known),
        notes=_tree(below, writer, known),
        link=link,
        file_count=count,
        size=size,
        ignored_size=ignored_size,
        omitted=omitted,
    )


def read_items(
    objects: GitObjects, branch: Branch, *, only: AbstractSet[bytes] | None = None
) -> dict[str, Item]:
    """The entries of a directory, read from its trees: all, or `only` those with these names."""
    modes: dict[str, int] = {}
    items: dict[str, Item] = {}
    trees: dict[str, dict[str, bytes]] = {}
    for mode, raw, tree in objects.tree(branch.notes):
        if mode == TREE:
            if only is None or raw[1:] in only:
                trees.setdefault(os.fsdecode(raw[1:]), {})["notes"] = tree
        else:
            notes = _parse_notes(objects.read(tree, "blob"))
            modes = {_decode_name(encoded): mode for encoded, mode in notes.get("modes", {}).items()}
            for encoded, (reason, size) in notes.get("absent", {}).items():
                items[_decode_name(encoded)] = OmittedEntry(reason, size)
    for place, entries in ((FILES, objects.tree(branch.files)), (PRIVATE, objects.tree(branch.beside))):
        for mode, prefixed, name in entries:
            raw = prefixed if place == FILES else prefixed[1:]
            if only is not None and raw not in only:
                continue
            text = raw.decode("utf-8", "surrogateescape")  # as os.fsdecode, which takes three times as long
            if mode == TREE:
                trees.setdefault(text, {})["files" if place == FILES else "beside"] = name
            elif mode == GITLINK:
                trees.setdefault(text, {})["link"] = name
            else:
                full = (
                    stat.S_IFLNK | 0o777
                    if mode == LINK
                    else mode & ~PERMISSIONS | modes.get(text, mode & 0o777)
                )
                items[text] = Leaf(full, name, place, -1)
    for text, found in trees.items():
        items[text] = EMPTY_BRANCH._replace(
            permissions=modes.get(text, DEFAULT_DIRECTORY_MODE),
            files=found.get("files"),
            beside=found.get("beside"),
            notes=found.get("notes"),
            link=found.get("link"),
        )
    return items


def changed_names(objects: GitObjects, old: Branch, new: Branch) -> set[bytes] | None:
    """The names of the entries that differ between two directories; None if any may differ."""
    files = objects.changed_names(old.files, new.files)
    beside = objects.changed_names(old.beside, new.beside)
    below = objects.changed_names(old.notes, new.notes)
    if files is None or beside is None or below is None or NOTES in below:
        return None
    return files | {name[1:] for name in beside | below}


def default_mode(mode: int) -> int:
    """The mode that git alone would restore."""
    if stat.S_ISLNK(mode):
        return mode
    return stat.S_IFREG | (DEFAULT_PROGRAM_MODE if mode & stat.S_IXUSR else DEFAULT_FILE_MODE)


def git_mode(mode: int) -> int:
    return LINK if stat.S_ISLNK(mode) else default_mode(mode)


def _tree(
    entries: list[tuple[int, bytes, bytes]], writer: PackWriter, known: AbstractSet[bytes]
) -> bytes | None:
    if not entries:
        return None
    return writer.add("tree", format_tree(entries), known=known)


def write_snapshot_tree(writer: PackWriter, branch: Branch) -> bytes:
    """The tree of a snapshot's commit."""
    empty = writer.add("tree", b"") if None in branch.trees[:3] else EMPTY_TREE
    names = (b"files", b"beside", b"manifest")
    return writer.add(
        "tree",
        format_tree(
            [(TREE, name, tree or empty) for name, tree in zip(names, branch.trees[:3], strict=True)]
        ),
    )


def read_snapshot_tree(objects: GitObjects, tree: bytes) -> Branch:
    """The top directory of a snapshot, from its commit's tree."""
    found = {name: None if tree == EMPTY_TREE else tree for _, name, tree in objects.tree(tree)}
    return EMPTY_BRANCH._replace(files=found[b"files"], beside=found[b"beside"], notes=found[b"manifest"])


def _format_notes(notes: Mapping[str, Mapping[str, object]]) -> bytes:
    """As JSON, compact, keys in order; in chunks, because one call would block the interpreter too long."""
    kinds = []
    for kind in sorted(notes):
        names = sort_in_chunks(notes[kind])
        parts = (
            json.dumps({name: notes[kind][name] for name in piece}, separators=(",", ":"))[1:-1]
            for piece in chunks(names)
        )
        kinds.append(f'"{kind}":{{{",".join(parts)}}}')
    return f"{{{','.join(kinds)}}}".encode()


def _parse_notes(text: bytes) -> dict[str, dict[str, Any]]:
    """Parse notes; long texts with the Python decoder, which does not block other threads."""
    if len(text) <= _LARGE_NOTES_BYTES:
        notes: dict[str, dict[str, Any]] = json.loads(text)
        return notes
    decoder = json.JSONDecoder()
    decoder.parse_object = json.decoder.JSONObject  # type: ignore[attr-defined]
    decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    notes = decoder.decode(text.decode())
    return notes


def _encode_name(name: str) -> str:
    """A name for JSON: each byte becomes one character, so that invalid UTF-8 is preserved."""
    return os.fsencode(name).decode("latin-1")


def _decode_name(name: str) -> str:
    return os.fsdecode(name.encode("latin-1"))


def with_permissions(branch: Branch, permissions: int) -> Branch:
    return branch if branch.permissions == permissions else branch._replace(permissions=permissions)
