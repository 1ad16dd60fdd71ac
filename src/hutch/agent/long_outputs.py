"""Texts that are too long to be told, kept where the agent can look at parts of them."""

from hutch.domain.errors import HutchError
from hutch.jail.interface import Jail

MAX_BYTES = 8 * 1024 * 1024


async def keep(jail: Jail, path: str, text: str) -> str:
    """Write a text to a file of the jail's own, and tell its path; nothing when there is no room for it."""
    data = text.encode(errors="replace")[:MAX_BYTES]
    # A link that somebody has put there is not followed: it is removed first, and the file must be new.
    script = 'rm -rf -- "$1" && set -C && cat > "$1"'
    try:
        ended = await jail.run(["/bin/sh", "-c", script, "keep", path], stdin=data)
    except HutchError:
        return ""
    return path if ended.exit_code == 0 else ""
