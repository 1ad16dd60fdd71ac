"""The user of this machine who runs Hutch."""

import os
import pwd

from hutch.domain.user import MAX_NAME_CHARS


def system_user() -> str:
    """The user's name, which the first owner of an installation gets."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "owner"
    kept = "".join(sign for sign in name if sign.isalnum() or sign in "._-")
    return kept[:MAX_NAME_CHARS] or "owner"
