"""Whether a directory without git may be copied: by an option, or by an answer at the terminal."""

import sys
from pathlib import Path


def may_copy(repository: str, given: bool, *, asks: bool = True) -> bool:
    """Whether a directory without git may be copied: by the option, or by an answer on a terminal.

    Without a terminal the answer is no; the refusal, which names the option, comes when it is used.
    """
    if given or not repository or not asks or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return given
    if (Path(repository) / ".git" / "HEAD").is_file():
        return False
    from hutch.cli.copy_question import confirm_copy

    return confirm_copy(repository)
