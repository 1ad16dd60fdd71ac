"""A kernel that hides children is noticed."""

import os
from pathlib import Path

from hutch.jail.children import complaint, lists_children


def test_this_kernel_lists_them() -> None:
    assert lists_children()
    assert complaint(listed=True) is None


def test_one_that_does_not_is_told_of(tmp_path: Path) -> None:
    (tmp_path / f"{os.getpid()}/task/{os.getpid()}").mkdir(parents=True)
    assert not lists_children(tmp_path)
    assert "CONFIG_PROC_CHILDREN" in (complaint(listed=False) or "")
