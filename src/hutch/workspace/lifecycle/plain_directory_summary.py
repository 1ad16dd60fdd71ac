"""Summarizes a directory without git before it is copied whole.

A repository contains what was committed. Any other directory may contain keys,
passwords, or simply too much. So the user gets a summary with names and sizes before
anything is copied.
"""

from itertools import islice

from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.errors import HutchError
from hutch.domain.secret_file_names import has_secret_name
from hutch.snapshots.confined_directory import Directory
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.directory_listing import Walk

MAX_ENTRIES = 20_000  # that are counted
MAX_NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class DirectorySummary:
    """Counts of a directory, up to the limit."""

    files: int
    bytes: int
    secrets: tuple[str, ...]  # paths with names typical of secrets
    cut: bool  # the limit was reached

    def __str__(self) -> str:
        more = "more than " if self.cut else ""
        text = f"{more}{self.files:,} file{'s' if self.files != 1 else ''}, {readable_size(self.bytes)}"
        if not self.secrets:
            return text
        named = ", ".join(ascii(path)[1:-1] for path in self.secrets[:MAX_NAMES_SHOWN])
        rest = (
            f" and {len(self.secrets) - MAX_NAMES_SHOWN} more" if len(self.secrets) > MAX_NAMES_SHOWN else ""
        )
        return f"{text}, including names typical of secrets: {named}{rest}"


def summarize_directory(directory: Directory) -> DirectorySummary:
    """Count the content. Opens only directories and follows no links. Blocks the thread."""
    seen = files = total = 0
    secrets: list[str] = []
    try:
        for entry in islice(Walk(directory, "").entries(), MAX_ENTRIES):
            seen += 1
            if entry.kind == "directory":
                continue
            files, total = files + 1, total + entry.size
            if has_secret_name(entry.path.rpartition("/")[2]):
                secrets.append(entry.path)
    except HutchError:  # not readable: copying it reports the reason
        return DirectorySummary(files, total, tuple(secrets), cut=True)
    return DirectorySummary(files, total, tuple(secrets), cut=seen == MAX_ENTRIES)
