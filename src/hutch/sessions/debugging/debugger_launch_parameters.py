"""An adapter in the jail, and the program that it starts under its debugger."""

from collections.abc import Mapping, Sequence
from typing import Any

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.system.lazy_dataclass import dataclass

PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """An adapter, and the program that it starts."""

    language: str
    path: str
    test: str
    adapter: tuple[str, ...]  # its command in the jail
    first: bytes  # that the adapter reads before all requests
    launch: Mapping[str, Any]  # the arguments of the request `launch`
    command: str  # as users would write it, without the debugger
    start_timeout_s: float = 90.0  # of the adapter, and of the program; a loaded machine starts Python slowly


def runner_of(path: str, runners: Sequence[Runner], names: Sequence[str]) -> Runner | None:
    """The runner with one of these names in the nearest directory above the file."""
    found = [
        runner
        for runner in runners
        if runner.name in names and (not runner.directory or path.startswith(f"{runner.directory}/"))
    ]
    return max(found, key=lambda runner: len(runner.directory), default=None)
