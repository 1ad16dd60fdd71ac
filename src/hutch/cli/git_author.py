"""The author of commits in a user's jail: the same as outside.

Reads only the user's own git settings; an attacker may have written those of a repository.
"""

import re
import subprocess

NAMES = {"user.name": "NAME", "user.email": "EMAIL"}
TIMEOUT_S = 2.0


def author() -> dict[str, str]:
    """Environment variables that name the author for git; empty when git has no name or is not installed."""
    command = ["git", "config", "--global", "-z", "--get-regexp", r"^user\.(name|email)$"]
    try:
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    entries = (entry.partition("\n") for entry in done.stdout.decode(errors="replace").split("\0"))
    return {
        f"GIT_{role}_{NAMES[name]}": value
        for name, _, value in entries
        if name in NAMES and value
        for role in ("AUTHOR", "COMMITTER")
    }


def signature(setting: str | None) -> str | None:
    """The author as `Name <address>`: from the setting, or from the user's git settings."""
    if setting:
        return setting
    variables = author()
    name = re.sub(r"[<>\x00-\x1f]", "", variables.get("GIT_AUTHOR_NAME", "")).strip()
    address = re.sub(r"[<>\x00-\x20]", "", variables.get("GIT_AUTHOR_EMAIL", ""))
    return f"{name} <{address}>" if name and address else None
