"""The stored record of a workspace, and the directories of workspaces and bases."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Literal, Self

from hutch.domain.errors import BadRequest, NotFound, Unavailable
from hutch.system.atomic_file import replace_file
from hutch.system.lazy_dataclass import dataclass

Mode = Literal["copy", "reflink", "overlay"]
Storage = Literal["disk", "memory"]

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
FILE = "workspace.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """How a workspace was prepared."""

    id: str
    source: str  # the address or path it came from, without credentials; "" for starter files
    mode: Mode
    mode_reason: str  # the reason for the mode, for users
    storage: Storage = "disk"
    base: str | None = None  # the key of its base
    commit: str | None = None
    branch: str | None = None
    created: str  # ISO 8601, UTC
    quota_bytes: int
    quota_files: int
    notes: tuple[str, ...] = ()  # what was skipped, for users
    settings: str = ""  # the repository's settings file, decoded by os.fsdecode
    layers: tuple[str, ...] = ()  # keys of the layers with installed dependencies, below the base
    layer_roots: tuple[str, ...] = ()  # the paths that they add; never part of a snapshot
    environment: str = ""  # about installed dependencies, for the agent; parts of it are untrusted
    variables: Mapping[str, str] = field(default_factory=dict)  # of every command, where no layer has them

    def write(self, directory: Path) -> None:
        text = json.dumps(asdict(self), indent=1, ensure_ascii=True)
        replace_file(directory / FILE, text + "\n")

    @classmethod
    def read(cls, directory: Path) -> Self:
        try:
            fields_read = json.loads((directory / FILE).read_text())
            known = {each.name for each in fields(cls)}
            for name in ("notes", "layers", "layer_roots"):
                fields_read[name] = tuple(fields_read.get(name, ()))
            return cls(**{name: value for name, value in fields_read.items() if name in known})
        except FileNotFoundError:
            raise NotFound(
                f"There is no workspace '{directory.name}'. `hutch workspace ls` lists all."
            ) from None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise Unavailable(
                f"The workspace '{directory.name}' cannot be read: {directory / FILE}: {error}. Remove it."
            ) from None


@dataclass(frozen=True, slots=True)
class Home:
    """The data directory of workspaces."""

    data: Path

    @property
    def bases(self) -> Path:
        return self.data / "bases"

    @property
    def layers(self) -> Path:
        """The layers with installed dependencies."""
        return self.data / "layers"

    def layer(self, key: str) -> Path:
        """The directory of a layer, which may not exist."""
        return self.layers / check_id(key)

    @property
    def repositories(self) -> Path:
        return self.data / "repositories"

    @property
    def workspaces(self) -> Path:
        return self.data / "workspaces"

    @property
    def staged_files(self) -> Path:
        """The starter files of sessions that are not prepared yet."""
        return self.data / "starter-files"

    def workspace(self, id: str) -> Path:
        """The directory of a workspace, which may not exist."""
        return self.workspaces / check_id(id)

    def make(self) -> None:
        """Create the directories, private to their owner."""
        for directory in (self.data, self.bases, self.repositories, self.workspaces):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def records(self) -> list[Record]:
        """The records of all complete workspaces."""
        try:
            names = sorted(os.listdir(self.workspaces))  # noqa: PTH208
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            if ID.fullmatch(name):
                try:
                    found.append(Record.read(self.workspaces / name))
                except NotFound:
                    continue
        return found


def check_id(id: str) -> str:
    """Return an id that is safe in paths. Refuses others."""
    if not ID.fullmatch(id):
        raise BadRequest(f"{id[:80]!a} cannot be a workspace's id. Use up to 64 letters, digits, - and _.")
    return id
