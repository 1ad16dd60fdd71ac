"""Where a file belongs: with what git would commit, or beside it."""

import stat

import pytest

from hutch.snapshots.snapshot_section_choice import Context, EmptyBase
from hutch.snapshots.snapshot_tree_layout import FILES, IGNORED, PRIVATE

FILE, LINK = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777


class Tracked(EmptyBase):
    def __init__(self) -> None:
        self.links = {"module": b"\1" * 20}

    def tracks(self, path: str, name: str) -> bool:
        return (path, name) == ("build", "tracked")


@pytest.mark.parametrize(
    ("path", "mode", "place"),
    [
        ("a", FILE, FILES),
        ("a.log", FILE, IGNORED),
        ("a.log", LINK, IGNORED),
        ("keep.log", FILE, FILES),
        (".git", FILE, PRIVATE),
        (".GIT", LINK, PRIVATE),
        (".gitmodules", FILE, FILES),
        (".gitmodules", LINK, PRIVATE),
    ],
)
def test_at_the_top(path: str, mode: int, place: int) -> None:
    context = Context.top().inside("", b"*.log\n!keep.log\nbuild/\n", b"blob")
    assert context.section_of(path, mode, EmptyBase()) == place


def test_everything_below_an_ignored_directory_is_ignored_except_tracked_files() -> None:
    context = Context.top().inside("", b"build/\n", b"blob")
    below, link = context.below("build", Tracked())
    assert link is None
    assert below.section_of("build/x", FILE, Tracked()) == IGNORED
    assert below.section_of("build/tracked", FILE, Tracked()) == FILES
    deeper, _ = below.below("build/deep", Tracked())
    assert deeper.section_of("build/deep/x", FILE, Tracked()) == IGNORED
    assert below.below("build/.git", Tracked())[0].state == PRIVATE


def test_another_repository_is_private_and_stays_a_link() -> None:
    below, link = Context.top().below("module", Tracked())
    assert (below.state, link) == (PRIVATE, b"\1" * 20)
    assert below.section_of("module/file", FILE, Tracked()) == PRIVATE
    assert below.below("module/deep", Tracked()) == (below, None)


def test_the_digest_distinguishes_decisions() -> None:
    top = Context.top()
    contexts = [
        top,
        top.inside("", b"a\n", b"1" * 20),
        top.inside("", b"b\n", b"2" * 20),
        top.inside("x", b"a\n", b"1" * 20),
        top.inside("", b"a\n", b"1" * 20).inside("x", b"b\n", b"2" * 20),
        top.below(".git", EmptyBase())[0],
    ]
    assert len({context.digest for context in contexts}) == len(contexts)
    assert top.inside("", b"a\n", b"1" * 20).digest == contexts[1].digest
