"""Paths of files in a workspace, as clients name them: relative, with `/`, in UTF-8."""

import os

from hutch.domain.errors import BadRequest

MAX_PATH_BYTES = 4096


def parse_path(text: str, *, or_root: bool = False) -> str:
    """Check a path from a client. The kernel confines it anyway; this explains what is wrong with it."""
    if "\0" in text:
        raise BadRequest("A path cannot contain NUL.")
    if len(os.fsencode(text)) >= MAX_PATH_BYTES:
        raise BadRequest(f"A path must have fewer than {MAX_PATH_BYTES} bytes.")
    if text.startswith("/"):
        raise BadRequest("A path is relative to the workspace and does not begin with '/'.")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadRequest("A path cannot contain '..'. Write it relative to the workspace.")
    if not parts and not or_root:
        raise BadRequest("The path of a file is missing.")
    return "/".join(parts)
