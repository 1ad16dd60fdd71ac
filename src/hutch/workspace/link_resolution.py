"""Resolves links in a path, for rules about paths.

Links give files other names than those in the rules. This is not a security check: a
link may be swapped afterwards. `Directory` keeps a path inside at the moment of use.
"""

from collections.abc import Sequence

from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.snapshots.confined_directory import Directory

MAX_LINKS = 40  # the kernel's limit


def resolve_links(tree: Directory, path: str, roots: Sequence[str] = ()) -> str:
    """The path without links and `..`, as far as it exists. `roots` are the names of the tree in a jail."""
    pending = path.split("/")[::-1]
    resolved: list[str] = []
    links = 0
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if not resolved:
                raise _outside_error(path)
            resolved.pop()
            continue
        target = _target(tree, "/".join([*resolved, name]))
        if target is None:
            resolved.append(name)
            continue
        links += 1
        if links > MAX_LINKS:
            raise Denied(f"'{path}' contains a loop of links.")
        if target.startswith("/"):
            inside = [
                target[len(root) :] for root in roots if target == root or target.startswith(f"{root}/")
            ]
            if not inside:
                raise _outside_error(path)
            target, resolved = inside[0], []
        pending += target.split("/")[::-1]
    return "/".join(resolved)


def _target(tree: Directory, path: str) -> str | None:
    try:
        return tree.read_link(path)
    except (NotFound, BadRequest, Denied):
        return None  # not a link, or not readable


def _outside_error(path: str) -> Denied:
    return Denied(f"'{path}' leads out of the workspace. Only paths inside it can be used.")
