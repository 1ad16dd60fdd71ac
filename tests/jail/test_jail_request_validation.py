"""No request of a caller harms the jail, or leaks a descriptor."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Unavailable
from hutch.jail.interface import Size
from hutch.jail.jail_request_validation import check_address
from hutch.jail.jail_startup import Jailed, start_jail
from hutch.jail.shared_terminal import start_terminal
from hutch.jail.shell.shared_jails_and_shells import Shells

pytestmark = pytest.mark.anyio
HALF = "\ud800"  # of a character


def descriptors() -> Counter[str]:
    """The open descriptors, without those that the watcher uses."""
    found: Counter[str] = Counter()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[os.readlink(link).partition(":")[0]] += 1  # noqa: PTH115 (what is open may be no path)
    return Counter({name: count for name, count in found.items() if not name.startswith("/proc")})


@pytest.mark.parametrize(
    "ask",
    [
        lambda jail: jail.run(["echo", HALF]),
        lambda jail: jail.run([HALF]),
        lambda jail: jail.run(["true"], env={"A": HALF}),
        lambda jail: jail.run(["true"], env={HALF: "a"}),
        lambda jail: jail.run(["true"], cwd=HALF),
        lambda jail: start_terminal(jail, ["echo", HALF]),
        lambda jail: jail.spawn(["true"], terminal=Size(-1, 80)),
        lambda jail: jail.spawn(["true"], terminal=Size(24, 70_000)),
        lambda jail: Shells(jail).shell().run(f"echo {HALF}"),
        lambda jail: Shells(jail).shell().run("true", env={"A": HALF}),
        lambda jail: jail.connect(80, host="no.such"),
        lambda jail: jail.connect(80, host="a..b"),
        lambda jail: jail.connect(80, host="::1%lo"),
        lambda jail: jail.connect(80, host="1\0 2"),
        lambda jail: jail.connect(0),
        lambda jail: jail.connect(-1),
        lambda jail: jail.connect("80"),
        lambda jail: jail.listen(70_000),
        lambda jail: jail.listen(-1),
        lambda jail: jail.listen(host=""),
        lambda jail: jail.listen(host=2130706433),
    ],
)
async def test_invalid_requests_are_refused_and_the_jail_continues(
    jail: Jailed, ask: Callable[[Jailed], Awaitable[object]]
) -> None:
    await jail.run(["true"])
    before = descriptors()
    for _ in range(5):
        with pytest.raises(BadRequest):
            await ask(jail)
    assert descriptors() - before == Counter()
    assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_a_name_that_is_not_utf_8_can_be_passed_back(jail: Jailed, workspace: Path) -> None:
    (workspace / "\udcff").mkdir()
    assert (await jail.run(["pwd"], cwd="\udcff")).stdout == b"/workspace/\xff\n"
    assert (await jail.run(["echo", "ä\udcff"])).stdout == "ä".encode() + b"\xff\n"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
def test_addresses_are_accepted(host: str) -> None:
    check_address(host, 80)


async def test_a_closed_jail_says_so(workspace: Path) -> None:
    jail = await start_jail(workspace)
    await jail.close()
    for ask in (
        jail.run(["true"]),
        jail.spawn(["true"], terminal=Size()),
        start_terminal(jail),
        jail.connect(80),
        jail.listen(),
        jail.clear(),
    ):
        with pytest.raises(Unavailable, match="closed"):
            async with asyncio.timeout(60):
                await ask
