"""The jails of executions: no network, few processes, and little of everything else."""

from collections.abc import Mapping
from dataclasses import replace

from hutch.flows.code_execution.execution_limits_and_results import ExecutionLimits
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.jail.policy import GIB, MIB, TEST, Limits, Policy
from hutch.system.lazy_dataclass import dataclass

PROCESSES = 128  # threads count: Node has a dozen
BUILD_MEMORY_BYTES = 1 * GIB
WRITABLE_BYTES = 256 * MIB  # of test runs and compilers, in the directory of the code
MAX_COMMAND_S = 600.0


@dataclass(frozen=True, slots=True)
class ExecutionPlace:
    """The directory of one execution, the variables of its commands, and the directories that it must not
    see, such as those of hidden tests."""

    location: JailLocation
    variables: Mapping[str, str]
    hidden: tuple[str, ...] = ()


def case_policy(
    limits: ExecutionLimits, place: ExecutionPlace, *, writable: bool, output_bytes: int = 0
) -> Policy:
    """The jail of a case, or of a test run if it is writable."""
    return _policy(limits, place, limits.memory_bytes, writable, output_bytes or limits.output_bytes)


def build_policy(limits: ExecutionLimits, place: ExecutionPlace) -> Policy:
    """The jail in which code is compiled. The compiler is not ours to limit: it gets more memory."""
    memory_bytes = max(limits.memory_bytes, BUILD_MEMORY_BYTES)
    return _policy(limits, place, memory_bytes, True, limits.output_bytes)


def _policy(
    limits: ExecutionLimits,
    place: ExecutionPlace,
    memory_bytes: int,
    writable: bool,
    output_bytes: int,
) -> Policy:
    own: Limits = replace(
        TEST.limits,
        processes=PROCESSES,
        memory_bytes=memory_bytes,
        tmp_bytes=memory_bytes // 4,
        shm_bytes=memory_bytes // 16,
        home_bytes=memory_bytes // 8,
        tmpfs_files=20_000,
        workspace_growth_bytes=WRITABLE_BYTES,
        workspace_growth_files=20_000,
        file_bytes=WRITABLE_BYTES,
        command_timeout_s=min(limits.timeout_s, MAX_COMMAND_S),
        output_bytes=output_bytes,
        output_file_bytes=1,  # what memory does not hold is omitted, not written to disk
    )
    return replace(
        TEST,
        profile="execution",
        limits=own,
        writable=writable,
        environment=tuple(place.variables.items()),
        hidden=place.hidden,
    )
