"""The resources that the commands of one session may use.

The names are those of the settings `jail.*` and of the limits in results of commands.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, NamedTuple

from hutch.domain.errors import BadRequest
from hutch.system.lazy_dataclass import dataclass

MIB = 1024**2
EIB = 1024**6
MAX_COMMAND_S = 600


class Range(NamedTuple):
    """The values that a resource may have."""

    lowest: float
    highest: float
    meaning: str


RANGES: Mapping[str, Range] = {
    "memory_bytes": Range(64 * MIB, EIB, "Memory of all processes together."),
    "processes": Range(16, 1_000_000, "Processes and threads at one time."),
    "cpus": Range(0.01, 1024, "Processors that all processes together may use."),
    "cpu_time_s": Range(1, 31_536_000, "Processor time of one command, with all its processes."),
    "workspace_growth_bytes": Range(MIB, EIB, "Growth of the workspace while its jail is open."),
    "workspace_growth_files": Range(100, 100_000_000, "Files and directories added meanwhile."),
    "open_files": Range(256, 1_000_000, "Open files of one process."),
    "file_bytes": Range(MIB, EIB, "Size of one file that a command writes."),
    "command_timeout_s": Range(1, MAX_COMMAND_S, "Seconds of a command; for the agent, without output."),
    "command_total_s": Range(1, MAX_COMMAND_S, "Seconds of a command in all."),
    "output_bytes": Range(4096, EIB, "Output of one command that is kept."),
}
FRACTIONAL = ("cpus",)


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that a session asks for. None means not asked, so the settings decide."""

    memory_bytes: int | None = None
    processes: int | None = None
    cpus: float | None = None
    cpu_time_s: int | None = None
    workspace_growth_bytes: int | None = None
    workspace_growth_files: int | None = None
    open_files: int | None = None
    file_bytes: int | None = None
    command_timeout_s: int | None = None
    command_total_s: int | None = None
    output_bytes: int | None = None

    def tightened(self, other: "Resources") -> "Resources":
        """The smaller of each pair of values that are set."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return Resources(
            *(min((value for value in pair if value is not None), default=None) for pair in pairs)
        )

    def as_dict(self) -> dict[str, Any]:
        """The values that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


NO_RESOURCES = Resources()


def check_resources(asked: Resources) -> None:
    """Refuse a value that no jail could have."""
    for name, value in asked.as_dict().items():
        lowest, highest, _ = RANGES[name]
        if not lowest <= value <= highest:
            raise BadRequest(f"{name} is {value:g}; give a value from {lowest:g} to {highest:g}.")
