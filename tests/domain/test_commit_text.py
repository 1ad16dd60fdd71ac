"""Whatever a model calls its work, it becomes a name that git takes."""

import pytest

from hutch.domain.commit_text import slug


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Fix the Bug!", "fix-the-bug"),
        ("../../etc/passwd", "etc-passwd"),
        ("--force", "force"),
        ("Ünï Crème", "uni-creme"),
        ("漢字", "change"),
        ("a" * 80, "a" * 50),
        ("x.lock", "x-lock"),
    ],
)
def test_a_title_as_a_name(title: str, name: str) -> None:
    assert slug(title) == name
