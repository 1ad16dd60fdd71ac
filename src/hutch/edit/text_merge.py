"""Merges two versions of a text that were made from the same one, line by line.

`git merge-file` does it, in a private directory: lines that only one side changed are taken
from that side. Where both changed the same lines, both versions are written between markers.
"""

import tempfile
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.forge.host_git import Git, GitFailed
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import one_line
from hutch.system.uncancellable_work import run_in_thread

MAX_MERGE_BYTES = 4 << 20  # of one version; a larger one counts as binary
MAX_LABEL_CHARS = 80
BINARY_PROBE_BYTES = 8000  # git looks for a NUL here
TIMEOUT_S = 20.0
MAX_CONFLICTS = 127  # git's exit status counts conflicts up to here; larger ones are errors


@dataclass(frozen=True, slots=True)
class Labels:
    """The names of the sides in markers."""

    ours: str
    base: str
    theirs: str


@dataclass(frozen=True, slots=True)
class MergedText:
    """The result of a merge; with conflicts it contains markers."""

    data: bytes
    conflicts: int


def is_mergeable(*versions: bytes) -> bool:
    """True if all versions are texts of a size that can be merged."""
    return all(len(each) <= MAX_MERGE_BYTES and b"\0" not in each[:BINARY_PROBE_BYTES] for each in versions)


async def merge_texts(
    git: Git, *, ours: bytes, base: bytes, theirs: bytes, labels: Labels
) -> MergedText | None:
    """Merge the changes from `base` to `ours` and from `base` to `theirs`; None if that is impossible."""
    if ours == theirs or base == theirs:
        return MergedText(ours, 0)
    if base == ours:
        return MergedText(theirs, 0)
    if not is_mergeable(ours, base, theirs):
        return None
    place = await run_in_thread(_write_versions, {"ours": ours, "base": base, "theirs": theirs})
    try:
        try:
            await git.run("merge-file", "--quiet", *_words(Path(place.name), labels), timeout_s=TIMEOUT_S)
            conflicts = 0
        except GitFailed as error:
            if not 0 < error.exit_code <= MAX_CONFLICTS:
                return None
            conflicts = error.exit_code
        except Unavailable:  # a timeout: such a text is not worth the wait
            return None
        return MergedText(await run_in_thread((Path(place.name) / "ours").read_bytes), conflicts)
    finally:
        await run_in_thread(place.cleanup)


def _words(place: Path, labels: Labels) -> list[str]:
    """The arguments of git, which writes the result over the first file."""
    names = [one_line(each, MAX_LABEL_CHARS) for each in (labels.ours, labels.base, labels.theirs)]
    options = [word for name in names for word in ("-L", name)]
    return [*options, "--", *(str(place / name) for name in ("ours", "base", "theirs"))]


def _write_versions(versions: dict[str, bytes]) -> "tempfile.TemporaryDirectory[str]":
    place = tempfile.TemporaryDirectory(prefix="hutch-merge-")
    try:
        for name, data in versions.items():
            (Path(place.name) / name).write_bytes(data)
    except BaseException:
        place.cleanup()
        raise
    return place
