"""Runs given code in throw-away jails: against cases, with the test runner of its language, or its linter.

Each case gets a jail of its own, with the code read-only: it finds neither files nor processes of another
case. The expected results stay outside and are compared here. The time and memory of a case are those that
the kernel has counted.
"""

import asyncio
import os
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from hutch.domain.errors import BadRequest, LimitReached
from hutch.domain.given_code_test_case import CodeCase, Language
from hutch.domain.user_given_starter_files import StarterFiles, check_starter_files
from hutch.flows.code_execution.case_programs import (
    DEFAULT_MODULE,
    GO_VARIABLES,
    build_program,
    check_reserved,
    with_go_module,
)
from hutch.flows.code_execution.case_runs import OnCase, compile_code, run_each_case
from hutch.flows.code_execution.code_linters import (
    LintReport,
    find_linter,
    missing_linter,
    run_linter,
    without_silencing,
)
from hutch.flows.code_execution.execution_limits_and_results import (
    DEFAULT_LIMITS,
    Execution,
    ExecutionLimits,
)
from hutch.flows.code_execution.go_build_cache import GoBuildCache
from hutch.flows.code_execution.jail_policies import ExecutionPlace, case_policy
from hutch.flows.code_execution.language_toolchains import (
    LanguageToolchain,
    LanguageToolchains,
    find_language_toolchains,
)
from hutch.flows.code_execution.test_runner_on_given_files import run_test_files
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.jail.jail_startup import open_jail
from hutch.jail.pid_stamped_names import make_directory

MAX_WAITING = 50  # executions
MAX_OF_ONE_USER = 8  # that run or wait


class CodeExecutor:
    """Runs executions, a bounded number at a time. `app/` builds one for each process."""

    def __init__(
        self,
        cache: Path,
        *,
        concurrency: int | None,
        named_toolchains: Sequence[str] = (),
        hidden: Sequence[str] = (),
    ) -> None:
        self._cache = cache
        self._slots = asyncio.Semaphore(concurrency or os.cpu_count() or 1)
        self._waiting = 0
        self._by_user: Counter[str] = Counter()
        self._named = tuple(named_toolchains)
        self._hidden = tuple(hidden)  # directories that no execution may see
        self._toolchains: LanguageToolchains | None = None
        self._looking = asyncio.Lock()  # for them

    async def toolchains(self) -> LanguageToolchains:
        """The toolchains of this machine. Looked for again while any is missing."""
        if self._toolchains is not None and not self._toolchains.missing:
            return self._toolchains
        async with self._looking:
            if self._toolchains is None or self._toolchains.missing:
                self._toolchains = await asyncio.to_thread(find_language_toolchains, self._named)
            return self._toolchains

    async def prepare(self, languages: Sequence[Language]) -> None:
        """Do now what the first execution would otherwise wait for: compile Go's standard library. Raises
        an error that names a missing toolchain."""
        for language in languages:
            await self.shown(language)

    async def shown(self, language: Language) -> tuple[tuple[Path, ...], dict[str, str]]:
        """The directories that a jail must be shown to run a language, and the variables."""
        return await self._shown((await self.toolchains()).get(language))

    async def shown_without_waiting(self, language: Language) -> tuple[tuple[Path, ...], dict[str, str]]:
        """The same, without Go's compiled library until it is ready."""
        toolchain = (await self.toolchains()).get(language)
        if toolchain.name == "go" and not await GoBuildCache(self._cache, toolchain).is_ready():
            return toolchain.shown, {**GO_VARIABLES, **toolchain.variables, "PATH": toolchain.path}
        return await self._shown(toolchain)

    async def run_cases(
        self,
        language: Language,
        files: StarterFiles,
        cases: Sequence[CodeCase],
        *,
        limits: ExecutionLimits = DEFAULT_LIMITS,
        module: str = DEFAULT_MODULE,
        on_case: OnCase | None = None,
        user: str = "",
    ) -> Execution:
        """Run the files against the cases, each in a process and a jail of its own, in order.

        `module` is the file that cases call, without its extension. A `user` may have a few executions at a
        time. Code that fails is a result; an error is
        raised only for a request that cannot be run, or if a toolchain is missing.
        """
        if not cases:
            raise BadRequest("There are no cases to run. Give at least one.")
        toolchain = (await self.toolchains()).get(language)
        program = build_program(toolchain, language, check_starter_files(files.items()), cases, module)
        async with self._place(toolchain, program.files, user) as place:
            began = time.monotonic()
            if failed := await compile_code(place, program, limits):
                return replace(failed, build_s=time.monotonic() - began)
            build_s, began = time.monotonic() - began, time.monotonic()
            results = await run_each_case(place, program, cases, limits, on_case)
            return Execution(
                language=language, cases=tuple(results), build_s=build_s, time_s=time.monotonic() - began
            )

    async def run_tests(
        self,
        language: Language,
        files: StarterFiles,
        *,
        limits: ExecutionLimits = DEFAULT_LIMITS,
        tests: Sequence[str] = (),
    ) -> Execution:
        """Run the test files among the files with the language's own runner: unittest, node:test, go test.

        `tests` are the paths of test files to run; by default all. Tests share a process with the code that
        they test, so the code can read them and can influence what is reported.
        """
        toolchain = (await self.toolchains()).get(language)
        checked = check_starter_files(files.items())
        check_reserved(checked)
        if language == "go":
            checked = with_go_module(checked)
        async with self._place(toolchain, checked) as place:
            return await _run_test_files(place, toolchain, language, checked, limits, tests)

    async def lint(
        self,
        language: Language,
        files: StarterFiles,
        paths: Sequence[str],
        *,
        limits: ExecutionLimits = DEFAULT_LIMITS,
    ) -> LintReport:
        """The findings of the language's linter about `paths`, some of the files."""
        toolchain = (await self.toolchains()).get(language)
        linter = await asyncio.to_thread(find_linter, language, toolchain, self._cache, self._named)
        if linter is None:
            return missing_linter(language)
        checked = check_starter_files(files.items())
        checked = {
            path: replace(file, content=without_silencing(language, file.content))
            for path, file in checked.items()
        }
        if language == "go":
            checked = with_go_module(checked)
        async with self._place(toolchain, checked) as place:
            return await run_linter(place, linter, paths, limits)

    @asynccontextmanager
    async def _place(
        self, toolchain: LanguageToolchain, files: StarterFiles, user: str = ""
    ) -> AsyncIterator[ExecutionPlace]:
        """A slot, and a directory with the files that is removed in the end."""
        async with self._slot(user):
            shown, variables = await self._shown(toolchain)
            directory = await asyncio.to_thread(make_directory, "hutch-execution")
            try:
                await asyncio.to_thread(_write_files, directory, files)
                yield ExecutionPlace(
                    JailLocation(directory, directory, beside=shown), variables, self._hidden
                )
            finally:
                await asyncio.shield(asyncio.to_thread(_remove, directory))

    @asynccontextmanager
    async def _slot(self, user: str) -> AsyncIterator[None]:
        if user and self._by_user[user] >= MAX_OF_ONE_USER:
            raise LimitReached(
                f"You have {MAX_OF_ONE_USER} executions already, the maximum. Wait until one has ended.",
                limit="executions_of_user",
            )
        if self._waiting >= MAX_WAITING:
            raise LimitReached(
                f"{self._waiting} executions wait already, the maximum. Try again later.",
                limit="execution.concurrency",
            )
        self._by_user[user] += 1
        try:
            self._waiting += 1
            try:
                await self._slots.acquire()
            finally:
                self._waiting -= 1
            try:
                yield
            finally:
                self._slots.release()
        finally:
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user]

    async def _shown(self, toolchain: LanguageToolchain) -> tuple[tuple[Path, ...], dict[str, str]]:
        """The directories that a jail must be shown for a toolchain, and its variables."""
        variables = {**toolchain.variables, "PATH": toolchain.path}
        if toolchain.name != "go":
            return toolchain.shown, variables
        cache = await GoBuildCache(self._cache, toolchain).prepare()
        return (*toolchain.shown, cache), {**GO_VARIABLES, **variables, "GOCACHE": str(cache)}


async def _run_test_files(
    place: ExecutionPlace,
    toolchain: LanguageToolchain,
    language: Language,
    files: StarterFiles,
    limits: ExecutionLimits,
    tests: Sequence[str],
) -> Execution:
    policy = case_policy(limits, place, writable=True)
    async with open_jail(place.location, policy) as jail:
        return await run_test_files(jail, toolchain, language, files, limits, tests)


def _write_files(directory: Path, files: StarterFiles) -> None:
    for path, file in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(0o755 if file.executable else 0o644)


def _remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
