"""The user's consent to copy a directory without git, by an option or at the terminal."""

import sys
from pathlib import Path


def may_copy(repository: str, option: bool, *, asks: bool = True) -> bool:
    """True if a directory without git may be copied: by `option`, or by an answer on a terminal.

    Without a terminal the answer is no; the later refusal names the option.
    """
    if option or not repository or not asks or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return option
    if (Path(repository) / ".git" / "HEAD").is_file():
        return False
    from hutch.cli.directory_copy_question import confirm_copy

    return confirm_copy(repository)
