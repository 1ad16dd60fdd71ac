"""How a session uses a layer: which paths it adds, and which variables it needs."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hutch.domain.errors import HutchError, LimitReached
from hutch.environment.layers.layer_store import Layer
from hutch.jail.policy import PATH, WORKSPACE
from hutch.snapshots.confined_directory import Directory

MAX_ROOTS = 500


def visible_roots(layer: Layer, tree: Path, repository: Directory) -> tuple[str, ...]:
    """The topmost paths of a layer that the repository does not have.

    Where both have a directory, the paths below it count; where the repository has anything else, it wins.
    """
    with Directory.at(tree) as own:
        found = list(_missing(own, repository, layer.roots))
    if len(found) > MAX_ROOTS:
        raise LimitReached(
            f"The set-up adds files in {len(found)} places of the repository; {MAX_ROOTS} is the maximum.",
            limit="environment.setup",
        )
    return tuple(sorted(found))


def _missing(own: Directory, repository: Directory, paths: Sequence[str]) -> Iterator[str]:
    waiting, count = list(paths), 0
    while waiting and count <= MAX_ROOTS:
        path = waiting.pop()
        try:
            there = repository.stat(path).st_mode
        except HutchError:
            count += 1
            yield path
            continue
        if stat.S_ISDIR(there) and stat.S_ISDIR(own.stat(path).st_mode):
            fd = own.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                waiting += [f"{path}/{name}" for name in os.listdir(fd)]  # noqa: PTH208
            finally:
                os.close(fd)


def session_variables(layers: Sequence[Layer]) -> dict[str, str]:
    """The variables of a session with these layers, PATH included."""
    found: dict[str, str] = {}
    directories: list[str] = []
    for layer in layers:
        found |= layer.variables
        directories += layer.path
        if ".venv" in layer.roots:
            found["VIRTUAL_ENV"] = f"{WORKSPACE}/.venv"
            directories.append(f"{WORKSPACE}/.venv/bin")
        if "node_modules" in layer.roots:
            directories.append(f"{WORKSPACE}/node_modules/.bin")
    if directories:
        found["PATH"] = ":".join((*dict.fromkeys(directories), PATH))
    return found


def merged_environment(
    present: Sequence[tuple[str, str]], added: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The variables of a policy with more; the present ones win, but for PATH, which is joined."""
    have = dict(present)
    both = {**added, **have}
    if "PATH" in have and "PATH" in added:
        front = [part for part in added["PATH"].split(":") if part not in PATH.split(":")]
        both["PATH"] = ":".join(dict.fromkeys([*front, *have["PATH"].split(":")]))
    return tuple(both.items())
