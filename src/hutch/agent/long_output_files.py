"""Saves outputs that are too long for the model to files in the jail, where it can read parts of them."""

from hutch.domain.errors import HutchError
from hutch.jail.interface import Jail

MAX_BYTES = 8 * 1024 * 1024


async def save_output(jail: Jail, path: str, text: str) -> str:
    """Write a text to a file in the jail and return its path; empty when it cannot be written."""
    data = text.encode(errors="replace")[:MAX_BYTES]
    # The agent may have put a link there. It is removed first, and the file must be new.
    script = 'rm -rf -- "$1" && set -C && cat > "$1"'
    try:
        ended = await jail.run(["/bin/sh", "-c", script, "save", path], stdin=data)
    except HutchError:
        return ""
    return path if ended.exit_code == 0 else ""
