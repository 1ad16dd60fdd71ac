"""The time of `POST /execute` for one small Python case, without HTTP.

Ours writes the code, opens a jail with limits that are watched, calls the function, compares its result and
removes everything. The alternative starts bubblewrap with the same kind of namespaces, and Python in it.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row

from hutch.domain.given_code_test_case import CodeCase, Expected
from hutch.domain.user_given_starter_files import StarterFile
from hutch.flows.code_execution.code_executor import CodeExecutor

ROUNDS = 15
SOURCE = "def double(n):\n    return 2 * n\n"
BARE = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"),
    *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin"),
    *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
)


async def bare(directory: Path) -> None:
    call = f"import sys; sys.path.insert(0, {str(directory)!r}); import solution; print(solution.double(2))"
    process = await asyncio.create_subprocess_exec(
        *(*BARE, "--ro-bind", str(directory), str(directory), "/usr/bin/python3", "-I", "-c", call),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert printed == b"4\n"


async def compare(directory: Path) -> list[Row]:
    (directory / "solution.py").write_text(SOURCE)
    executor = CodeExecutor(directory, concurrency=1)
    files = {"solution.py": StarterFile(SOURCE.encode())}
    cases = [
        CodeCase(name=str(number), call="double", args=(2,), expected=Expected(value=4))
        for number in range(10)
    ]
    one, ten, theirs = [], [], []
    await executor.toolchains()
    for _ in range(ROUNDS):
        began = time.perf_counter()
        assert (await executor.run_cases("python", files, cases[:1])).ok
        one.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        await bare(directory)
        theirs.append((time.perf_counter() - began) * 1000)
    for _ in range(3):
        began = time.perf_counter()
        assert (await executor.run_cases("python", files, cases)).ok
        ten.append((time.perf_counter() - began) * 100)
    alone = statistics.median(theirs)
    return [
        Row("execute one Python case", statistics.median(one), alone, "ms", 6, "bwrap … python3"),
        Row("execute ten, for each", statistics.median(ten), alone, "ms", 4, "bwrap … python3"),
    ]


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="hutch-bench-") as name:
        yield from asyncio.run(compare(Path(name)))
