"""The settings file of a repository, as it was when its workspace was prepared.

Commands can change the file later. They must not change their own limits by that, so its first
content is stored in the record of the workspace.
"""

import os
import stat
from dataclasses import replace
from pathlib import Path

from hutch.domain.errors import HutchError, NotFound
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.lifecycle.shared_base_checkout import tree_path
from hutch.workspace.lifecycle.workspace_and_cache_removal import LOCK
from hutch.workspace.lifecycle.workspace_mount import mount_directory
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record

SETTINGS_FILE = ".hutch/config.toml"
MAX_STORED_BYTES = 16 * 1024  # more than may be used, so that its reader can tell that it is too large


def store_settings(home: Home, place: Path, record: Record) -> Record:
    """The record of a new workspace with the settings file in it. Blocks."""
    if record.mode == "overlay" and record.base and not any((place / "upper").iterdir()):
        with Directory.at(tree_path(home, record.base)) as tree:
            return with_settings(record, tree)
    if record.mode != "overlay":
        with Directory.at(place / "tree") as tree:
            return with_settings(record, tree)
    mount = mount_directory(home, place, record)
    try:
        return with_settings(record, mount.directory)
    finally:
        mount.close()
        (place / LOCK).unlink(missing_ok=True)


def with_settings(record: Record, tree: Directory) -> Record:
    try:
        folder = SETTINGS_FILE.partition("/")[0]
        if not stat.S_ISDIR(tree.stat(folder).st_mode):
            return _with_note(record, f"'{folder}' is not a directory")
        fd = tree.open(SETTINGS_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except NotFound:
        return record
    except HutchError:
        return _with_note(record, "it cannot be opened, or is a link")
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return _with_note(record, "it is not a regular file")
        return replace(record, settings=os.fsdecode(os.read(fd, MAX_STORED_BYTES)))
    finally:
        os.close(fd)


def _with_note(record: Record, reason: str) -> Record:
    return replace(record, notes=(*record.notes, f"'{SETTINGS_FILE}' is ignored: {reason}."))
