"""Who a commit in a person's jail is by: the same as out here.

Only what the person has told git about themselves, in their own settings; those
of a repository are not read, since a stranger may have written them.
"""

import subprocess

NAMES = {"user.name": "NAME", "user.email": "EMAIL"}
PATIENCE_S = 2.0


def author() -> dict[str, str]:
    """The variables by which git knows; none where git is not, or was not told."""
    asked = ["git", "config", "--global", "-z", "--get-regexp", r"^user\.(name|email)$"]
    try:
        done = subprocess.run(
            asked, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S
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
