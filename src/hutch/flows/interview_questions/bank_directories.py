"""The directories of question banks. They have hidden tests and solutions, so no jail may see them.

A module of its own, because every command that opens a jail imports it.
"""

from collections.abc import Sequence
from pathlib import Path

import hutch


def bundled_bank(package: Path | None = None) -> Path:
    """The directory of the questions that come with Hutch: in its package, or in the source tree."""
    package = package or Path(hutch.__file__).parent
    packed = package / "bundled_questions"
    return packed if packed.is_dir() else package.parents[1] / "questions"


def bank_directories(banks: Sequence[str | Path]) -> tuple[str, ...]:
    """The directories of all questions, with hidden tests and solutions: no jail may see them. Blocks."""
    return tuple(str(Path(each).expanduser().resolve()) for each in (*banks, bundled_bank()))
