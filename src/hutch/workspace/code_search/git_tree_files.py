"""The files of a git tree, and those that differ between two trees."""

from collections.abc import Iterator

from hutch.snapshots.git_object_reader import EMPTY_TREE, GITLINK, LINK, TREE, GitObjects

MAX_PATH_BYTES = 1024
NOTHING = (0, b"")  # in the place of an entry


def list_files(objects: GitObjects, tree: bytes, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """The path and the blob of each file; no links."""
    waiting = [(prefix, tree)]
    while waiting:
        above, name = waiting.pop()
        if name == EMPTY_TREE or len(above) > MAX_PATH_BYTES:
            continue
        for mode, raw, entry in objects.tree(name):
            if mode == TREE:
                waiting.append((above + raw + b"/", entry))
            elif mode not in (LINK, GITLINK):
                yield above + raw, entry


def changed_files(objects: GitObjects, old: bytes, new: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """The files that differ between two trees, with the new blob, or None if there is no file any more. Equal
    directories are not read."""
    waiting: list[tuple[bytes, bytes | None, bytes | None]] = [(b"", old, new)]
    while waiting:
        above, old_tree, new_tree = waiting.pop()
        if len(above) > MAX_PATH_BYTES:
            continue
        before, after = _entries(objects, old_tree), _entries(objects, new_tree)
        for name in before.keys() | after.keys():
            was, now = before.get(name, NOTHING), after.get(name, NOTHING)
            if was == now:
                continue
            if TREE in (was[0], now[0]):
                deeper = (was[1] if was[0] == TREE else None, now[1] if now[0] == TREE else None)
                waiting.append((above + name + b"/", *deeper))
            if _is_file(now):
                yield above + name, now[1]
            elif _is_file(was):
                yield above + name, None


def _entries(objects: GitObjects, tree: bytes | None) -> dict[bytes, tuple[int, bytes]]:
    return {raw: (mode, entry) for mode, raw, entry in objects.tree(tree)}


def _is_file(entry: tuple[int, bytes]) -> bool:
    return entry[0] not in (NOTHING[0], TREE, LINK, GITLINK)
