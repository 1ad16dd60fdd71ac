"""Checks the terminal that a command was started on."""

import os


def can_prompt(terminal_type: str) -> bool:
    """True if a user can type on a terminal that supports drawing."""
    return os.isatty(0) and os.isatty(1) and terminal_type not in ("", "dumb")
