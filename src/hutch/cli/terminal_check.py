"""What the terminal that a command was started on can do."""

import os


def can_prompt(terminal_type: str) -> bool:
    """Whether there is somebody who can type, on a terminal that can be drawn on."""
    return os.isatty(0) and os.isatty(1) and terminal_type not in ("", "dumb")
