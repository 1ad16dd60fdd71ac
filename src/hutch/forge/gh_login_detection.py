"""Detects the own login of gh, the command line of GitHub."""

import shutil
import subprocess
from collections.abc import Mapping

from hutch.domain.hutch_secret_names import TOKEN_VARIABLES

TIMEOUT_S = 2.0


def is_logged_in(host: str, environment: Mapping[str, str]) -> bool:
    """True if gh has a token of its own for a host. It reads its files and contacts no server."""
    program = shutil.which("gh")
    if program is None:
        return False
    without_tokens = {name: value for name, value in environment.items() if name not in TOKEN_VARIABLES}
    try:
        ran = subprocess.run(
            [program, "auth", "token", "--hostname", host],
            env=without_tokens,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0 and bool(ran.stdout.strip())
