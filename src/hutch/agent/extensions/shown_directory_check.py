"""Refuses directories that no extension may see, whatever a shared catalogue names."""

import os
from collections.abc import Sequence
from pathlib import Path

from hutch.agent.extensions.extension_manifest import HIDDEN, Manifest
from hutch.domain.errors import Denied
from hutch.workspace.admission.directory_checks import KEYS, OwnDirectories


def check_directories(manifest: Manifest, own: OwnDirectories, homes: Sequence[Path]) -> None:
    """Refuse homes, directories with keys, and Hutch's own, also behind links. Blocks the thread."""
    for path in manifest.paths:
        place = Path(os.path.realpath(path))
        reason = _reason_against(place, own, homes)
        if reason:
            raise Denied(
                f"The extension {manifest.name} names the directory {path}, which {reason}. Name the "
                "directory of its program only."
            )


def _reason_against(place: Path, own: OwnDirectories, homes: Sequence[Path]) -> str:
    if str(place) in HIDDEN:
        return "belongs to the system"
    if KEYS.intersection(place.parts):
        return "holds keys"
    if any(home.is_relative_to(place) for home in homes):
        return "is or holds a home"
    for each in own.all:
        if place.is_relative_to(each) or each.is_relative_to(place):
            return "holds data of Hutch"
    return ""
