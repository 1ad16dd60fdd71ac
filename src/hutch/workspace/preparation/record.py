"""What is written down about a workspace, and where workspaces and their bases are kept."""

import json
import os
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, Self

from hutch.domain.errors import BadRequest, NotFound, Unavailable

Mode = Literal["copy", "reflink", "overlay"]
Storage = Literal["disk", "memory"]

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
FILE = "workspace.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A workspace as it was prepared."""

    id: str
    source: str  # the address or path it came from, without credentials; "" for starter files
    mode: Mode
    mode_reason: str  # why this mode, for people
    storage: Storage = "disk"
    base: str | None = None  # the key of the base it stands on
    commit: str | None = None
    branch: str | None = None
    created: str  # ISO 8601, UTC
    quota_bytes: int
    quota_files: int
    notes: tuple[str, ...] = ()  # what was left out on the way, for people

    def write(self, directory: Path) -> None:
        text = json.dumps(asdict(self), indent=1, ensure_ascii=True)
        (directory / FILE).write_text(text + "\n")

    @classmethod
    def read(cls, directory: Path) -> Self:
        try:
            told = json.loads((directory / FILE).read_text())
            known = {field.name for field in fields(cls)}
            told["notes"] = tuple(told.get("notes", ()))
            return cls(**{name: value for name, value in told.items() if name in known})
        except FileNotFoundError:
            raise NotFound(f"There is no workspace '{directory.name}'. Prepare it first.") from None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise Unavailable(
                f"The workspace '{directory.name}' cannot be read: {directory / FILE}: {error}. Remove it."
            ) from None


@dataclass(frozen=True, slots=True)
class Home:
    """The directory under which everything about workspaces is kept."""

    data: Path

    @property
    def bases(self) -> Path:
        return self.data / "bases"

    @property
    def repositories(self) -> Path:
        return self.data / "repositories"

    @property
    def workspaces(self) -> Path:
        return self.data / "workspaces"

    def workspace(self, id: str) -> Path:
        """Where a workspace is kept, if there is one."""
        return self.workspaces / check_id(id)

    def make(self) -> None:
        """Have the directories there, for their owner alone."""
        for directory in (self.data, self.bases, self.repositories, self.workspaces):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def records(self) -> list[Record]:
        """Every workspace there is; one that is being removed or made is none."""
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
    """An id that is safe in paths, or a refusal."""
    if not ID.fullmatch(id):
        raise BadRequest(f"{id[:80]!a} cannot be a workspace's id. Use up to 64 letters, digits, - and _.")
    return id
