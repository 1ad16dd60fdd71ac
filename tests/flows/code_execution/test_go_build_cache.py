"""Go works with a build cache that it cannot write."""

import os
from pathlib import Path

import pytest

from hutch.flows.code_execution.case_programs import DEFAULT_MODULE, GO_VARIABLES, build_program
from hutch.flows.code_execution.case_runs import compile_code
from hutch.flows.code_execution.execution_limits_and_results import DEFAULT_LIMITS
from hutch.flows.code_execution.go_build_cache import GoBuildCache
from hutch.flows.code_execution.jail_policies import ExecutionPlace
from hutch.jail.jail_directory_and_namespaces import JailLocation
from tests.flows.code_execution.shared_executor import CACHE, CASES, SOURCES, as_files, executor

pytestmark = pytest.mark.anyio


async def test_files_that_are_older_than_two_seconds_are_compiled(tmp_path: Path) -> None:
    """Go keeps an index of such files in its cache, and fails if it cannot: a busy machine is that slow."""
    toolchain = (await executor().toolchains()).get("go")
    cache = await GoBuildCache(CACHE, toolchain).prepare()
    program = build_program(toolchain, "go", as_files(SOURCES["go"]), CASES[:1], DEFAULT_MODULE)
    for path, file in program.files.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        os.utime(target, (1_000_000_000, 1_000_000_000))
    variables = {**GO_VARIABLES, **toolchain.variables, "PATH": toolchain.path, "GOCACHE": str(cache)}
    place = ExecutionPlace(JailLocation(tmp_path, tmp_path, beside=(*toolchain.shown, cache)), variables)
    assert await compile_code(place, program, DEFAULT_LIMITS) is None
