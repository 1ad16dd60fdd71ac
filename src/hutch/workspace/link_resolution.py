"""Where a path really leads, for rules about paths.

Links in a repository give files other names than the ones that rules are written for.
This is a look and no guard: who swaps a link afterwards is somewhere else. What keeps a
path inside is `Directory`, at the moment of use.
"""

from collections.abc import Sequence

from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.snapshots.directory import Directory

MAX_LINKS = 40  # as the kernel has it


def resolve_links(tree: Directory, path: str, roots: Sequence[str] = ()) -> str:
    """A path without links and `..`, as far as it exists; `roots` are what the tree is called in a jail."""
    ahead = path.split("/")[::-1]
    there: list[str] = []
    links = 0
    while ahead:
        name = ahead.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if not there:
                raise _outside_error(path)
            there.pop()
            continue
        target = _target(tree, "/".join([*there, name]))
        if target is None:
            there.append(name)
            continue
        links += 1
        if links > MAX_LINKS:
            raise Denied(f"'{path}' goes through links that lead round in circles.")
        if target.startswith("/"):
            inside = [
                target[len(root) :] for root in roots if target == root or target.startswith(f"{root}/")
            ]
            if not inside:
                raise _outside_error(path)
            target, there = inside[0], []
        ahead += target.split("/")[::-1]
    return "/".join(there)


def _target(tree: Directory, path: str) -> str | None:
    try:
        return tree.read_link(path)
    except (NotFound, BadRequest, Denied):
        return None  # no link, or nothing that could be looked at


def _outside_error(path: str) -> Denied:
    return Denied(f"'{path}' leads out of the workspace. Only paths inside it can be used.")
