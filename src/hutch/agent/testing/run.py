"""Run tests in the jail and read what came of them."""

import time
from collections.abc import Sequence

from hutch.agent.testing.detect import Runner
from hutch.agent.testing.read import LARGEST_BYTES, READERS
from hutch.agent.testing.report import Counts, Report
from hutch.domain.errors import NotFound
from hutch.jail.policy import profile
from hutch.jail.seam import Jail, StreamName

NO_MODULE = b"No module named pytest"


async def run_tests(jail: Jail, runner: Runner, *, cwd: str = "", timeout_s: float | None = None) -> Report:
    """One run under the limits of the `test` profile, inside those of the jail."""
    began, printed = time.monotonic(), _Printed()
    if runner.report:
        await jail.run(["rm", "-f", runner.report])
    known = profile("test").limits
    try:
        ran = await jail.run(
            runner.argv,
            cwd=cwd,
            timeout_s=timeout_s or known.command_timeout_s,
            limits=known,
            on_output=printed.add if runner.reader and not runner.report else None,
        )
    except NotFound as error:
        raise NotFound(f"{runner.argv[0]} is needed to run these tests. {error}") from None
    output = (ran.stdout + b"\n" + ran.stderr).decode(errors="replace")
    counts = await _counts(jail, runner, printed.data) if runner.reader else None
    return Report(
        runner=runner.name,
        command=str(runner),
        counts=counts,
        exit_code=ran.exit_code if ran.exit_code is not None else 128 + (ran.signal or 0),
        timed_out=ran.timed_out,
        limit=str(ran.limit_hit) if ran.limit_hit and not ran.timed_out else "",
        output=output,
        output_path=str(ran.output_path or ""),
        duration_s=time.monotonic() - began,
    )


async def _counts(jail: Jail, runner: Runner, printed: bytes) -> Counts | None:
    assert runner.reader
    if runner.report:
        kept = _Printed()
        await jail.run(["cat", runner.report], on_output=kept.add)
        printed = kept.data
    return READERS[runner.reader](printed)


class _Printed:
    """What a command prints, up to a size."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._room = LARGEST_BYTES

    def add(self, stream: StreamName, data: bytes) -> None:
        if stream == "stdout" and self._room > 0:
            self._parts.append(data[: self._room])
            self._room -= len(data)

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)


def named(paths: Sequence[str]) -> list[str]:
    """Paths that tests could be named by, without what would be an option."""
    return [path for path in paths if path and not path.startswith("-")]
