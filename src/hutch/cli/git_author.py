"""Who a commit in a person's jail is by: the same as out here.

Only what the person has told git about themselves, in their own settings; those
of a repository are not read, since a stranger may have written them.
"""

import re
import subprocess

NAMES = {"user.name": "NAME", "user.email": "EMAIL"}
TIMEOUT_S = 2.0


def author() -> dict[str, str]:
    """The variables by which git knows; none where git is not, or was not told."""
    asked = ["git", "config", "--global", "-z", "--get-regexp", r"^user\.(name|email)$"]
    try:
        done = subprocess.run(
            asked, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    told = (entry.partition("\n") for entry in done.stdout.decode(errors="replace").split("\0"))
    return {
        f"GIT_{role}_{NAMES[name]}": value
        for name, _, value in told
        if name in NAMES and value
        for role in ("AUTHOR", "COMMITTER")
    }


def signature(wanted: str | None) -> str | None:
    """An author as `Name <address>`: the one that is set, or whom the person's git names."""
    if wanted:
        return wanted
    told = author()
    name = re.sub(r"[<>\x00-\x1f]", "", told.get("GIT_AUTHOR_NAME", "")).strip()
    address = re.sub(r"[<>\x00-\x20]", "", told.get("GIT_AUTHOR_EMAIL", ""))
    return f"{name} <{address}>" if name and address else None
