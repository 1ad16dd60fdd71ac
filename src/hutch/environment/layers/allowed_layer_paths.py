"""The paths of a workspace that a layer may add.

An install script can write anywhere in the workspace of a build: instructions for the agent
(`AGENTS.md`), settings of test runners (`conftest.py`), files of the project. A layer takes only
the places where package managers keep dependencies, and those that the set-up names.
"""

from fnmatch import fnmatchcase

DEPENDENCY_DIRECTORIES = frozenset(
    {
        *(".hutch-cache", ".venv", "venv", "__pypackages__", ".tox", ".nox", ".eggs", ".pixi"),
        *("node_modules", ".yarn", ".pnpm-store", "bower_components", "vendor", "target", ".gradle", ".m2"),
    }
)
DEPENDENCY_FILES = frozenset({".pnp.cjs", ".pnp.loader.mjs", ".pnp.data.json"})
BELOW = ".yarn"  # repositories track a part of it
METADATA = ".egg-info"  # of a Python project that is installed in place


class LayerPaths:
    """The paths that a layer may have; `outputs` are patterns of further ones."""

    def __init__(self, outputs: tuple[str, ...] = ()) -> None:
        self._outputs = [pattern.strip("/").split("/") for pattern in outputs]

    def keeps(self, path: str, *, is_file: bool) -> bool:
        """True if a path belongs to a layer, with everything below it. A link counts as a directory."""
        *above, name = path.split("/")
        if is_file:
            is_known = name in DEPENDENCY_FILES
        else:
            is_known = name in DEPENDENCY_DIRECTORIES or name.endswith(METADATA)
        return is_known or BELOW in above or any(_matches(path, each) for each in self._outputs)

    def may_hold(self, path: str) -> bool:
        """True if an output can be below a directory."""
        depth = path.count("/") + 1
        return any(len(each) > depth and _matches(path, each[:depth]) for each in self._outputs)


def _matches(path: str, pattern: list[str]) -> bool:
    parts = path.split("/")
    if pattern[-1] == "**":  # everything below
        pattern, parts = pattern[:-1], parts[: max(1, len(pattern) - 1)]
    return len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))
