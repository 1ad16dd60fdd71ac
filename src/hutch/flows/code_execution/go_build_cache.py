"""Go's standard library, compiled once for all executions.

Compiling it takes a minute of processor time; with it, a small program takes a second. It is compiled in a
jail without any given code, and jails with given code see it read-only, so no code can put anything there.
"""

import asyncio
import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.flows.code_execution.case_programs import GO_VARIABLES
from hutch.flows.code_execution.language_toolchains import LanguageToolchain
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.jail.jail_startup import open_jail
from hutch.jail.pid_stamped_names import make_directory
from hutch.jail.policy import GIB, MIB, TEST, WORKSPACE, Policy
from hutch.system.file_lock import locked_by_name

TIMEOUT_S = 600.0
FORMAT = 1  # of the cache; another number makes a new one
PACKAGES = (
    *("bufio", "bytes", "cmp", "container/heap", "container/list", "container/ring", "context"),
    *("crypto/md5", "crypto/sha1", "crypto/sha256", "encoding/base64", "encoding/binary", "encoding/csv"),
    *(
        "encoding/hex",
        "encoding/json",
        "errors",
        "fmt",
        "hash/crc32",
        "hash/fnv",
        "io",
        "iter",
        "log",
        "maps",
    ),
    *("math", "math/big", "math/bits", "math/rand", "os", "path", "path/filepath", "reflect", "regexp"),
    *("runtime", "runtime/debug", "slices", "sort", "strconv", "strings", "sync", "sync/atomic", "testing"),
    *("text/tabwriter", "time", "unicode", "unicode/utf8"),
)
"""Packages that given code is likely to import. Others are compiled again in each execution."""

GO_MOD = "module warm\n\ngo 1.23\n"
TEST_FILE = 'package warm\n\nimport "testing"\n\nfunc TestNothing(t *testing.T) {}\n'


class GoBuildCache:
    """The compiled standard library of one toolchain, in a directory of the installation."""

    def __init__(self, directory: Path, toolchain: LanguageToolchain) -> None:
        self._root = directory
        self._toolchain = toolchain
        about = (
            f"{FORMAT} {toolchain.version} {toolchain.directory} {PACKAGES} {sorted(GO_VARIABLES.items())}"
        )
        self.directory = directory / f"go-{hashlib.sha256(about.encode()).hexdigest()[:16]}"

    async def is_ready(self) -> bool:
        return await asyncio.to_thread(self.directory.is_dir)

    async def prepare(self) -> Path:
        """Compile the standard library, unless that is done; others wait meanwhile."""
        if await self.is_ready():
            return self.directory
        async with locked_by_name(self._root, "go"):
            if not await self.is_ready():
                await self._build()
        return self.directory

    async def _build(self) -> None:
        scratch = await asyncio.to_thread(make_directory, "hutch-go")
        staged = self.directory.with_name(f"{self.directory.name}.new")
        try:
            await asyncio.to_thread(_write_sources, scratch)
            variables = {**GO_VARIABLES, **self._toolchain.variables, "PATH": self._toolchain.path}
            variables |= {"GOCACHE": f"{WORKSPACE}/cache"}
            location = JailLocation(scratch, scratch, beside=self._toolchain.shown)
            async with open_jail(location, _policy(variables)) as jail:
                for words in (("build", *PACKAGES), ("test", "-vet=off", "-count=1", "./...")):
                    ran = await jail.run([self._toolchain.program, *words], timeout_s=TIMEOUT_S)
                    if ran.exit_code != 0:
                        said = (ran.stderr or ran.stdout).decode(errors="replace").strip()[-1000:]
                        reason = str(ran.limit_hit or "") or ("timeout" if ran.timed_out else said)
                        raise Unavailable(f"Go's standard library could not be compiled: {reason}")
            await asyncio.to_thread(_publish, scratch / "cache", staged, self.directory)
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)


def _policy(variables: dict[str, str]) -> Policy:
    limits = replace(
        TEST.limits,
        memory_bytes=2 * GIB,
        tmp_bytes=512 * MIB,
        command_timeout_s=TIMEOUT_S,
        workspace_growth_bytes=1 * GIB,
    )
    return replace(TEST, limits=limits, environment=tuple(variables.items()))


def _write_sources(directory: Path) -> None:
    (directory / "go.mod").write_text(GO_MOD)
    (directory / "warm_test.go").write_text(TEST_FILE)


def _publish(cache: Path, staged: Path, final: Path) -> None:
    """Move the cache into place at once: it may lie on another file system."""
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(cache, staged)
    staged.rename(final)
