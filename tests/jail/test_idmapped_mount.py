"""Root lends a directory to a jail, and its files stay the owner's."""

# ruff: noqa: ASYNC240 (reading the host's /proc is fast enough here)

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.domain.errors import NotFound, Unavailable
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import Policy

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root works on the directories of others"),
]

OWNER, GROUP = 54321, 54322


@pytest.fixture
def owned(workspace: Path) -> Path:
    """A private directory of another user."""
    private = workspace / "private"
    repository = private / "repository"
    repository.mkdir(parents=True)
    (repository / "theirs").write_text("old")
    (repository / "roots").write_text("root's")
    (repository / "roots").chmod(0o600)
    for path in (private, repository, repository / "theirs"):
        os.chown(path, OWNER, GROUP)
    private.chmod(0o700)
    repository.chmod(0o700)
    return repository


async def test_the_jail_works_as_the_owner_and_its_files_are_the_owners(owned: Path) -> None:
    async with open_jail(owned) as jail:
        ran = await jail.run(
            [
                "sh",
                "-c",
                "echo new > made; mkdir -p a/b; echo more >> theirs; stat -c %u . | grep -x $(id -u)",
            ]
        )
        assert ran.exit_code == 0, ran.stderr
    assert (owned / "theirs").read_text() == "oldmore\n"
    for path in (owned / "made", owned / "a", owned / "a/b", owned / "theirs"):
        assert (path.stat().st_uid, path.stat().st_gid) == (OWNER, GROUP)


async def test_a_readonly_directory_inside_a_private_one_is_shown(owned: Path, tmp_path: Path) -> None:
    """A server of root has its programs below /root, which no jail's user may enter."""
    private = tmp_path / "private"
    (private / "tools").mkdir(parents=True)
    (private / "tools").chmod(0o777)
    (private / "tools" / "version").write_text("1.2")
    (private / "tools" / "version").chmod(0o666)
    (private / "tools" / "key").touch(mode=0o600)
    (private / "other").touch()
    private.chmod(0o700)
    async with open_jail(owned, Policy(readonly=(str(private / "tools"),))) as jail:
        ran = await jail.run(
            ["sh", "-c", 'cd "$0"; cat version; cat key; touch new version; ls ..', str(private / "tools")]
        )
    assert ran.stdout == b"1.2tools\n"
    assert [line.rpartition(b": ")[2] for line in ran.stderr.splitlines()] == [
        b"Permission denied",
        b"Read-only file system",
        b"Read-only file system",
    ]
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


async def test_a_file_of_another_owner_stays_shut(owned: Path) -> None:
    async with open_jail(owned) as jail:
        ran = await jail.run(
            ["sh", "-c", "cat roots; echo x > roots; chown $(id -u) roots; stat -c %U roots"]
        )
    assert ran.stdout == b"nobody\n"
    assert ran.stderr.count(b"denied") == 2
    assert (owned / "roots").read_text() == "root's"


async def test_roots_own_directory_can_be_lent_too(workspace: Path) -> None:
    async with open_jail(workspace) as jail:
        assert (await jail.run(["touch", "made"])).exit_code == 0
    assert (workspace / "made").stat().st_uid == 0


async def test_no_mount_remains_on_the_host(owned: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    async with open_jail(owned) as jail:
        await jail.run(["true"])
        assert Path("/proc/self/mountinfo").read_text() == before
    assert list(Path("/run/hutch").iterdir()) == []


async def test_a_file_system_without_idmapping_is_refused_with_a_remedy() -> None:
    with pytest.raises(Unavailable, match=r"has no idmapped mounts .* or run Hutch as the user who owns it"):
        async with open_jail(Path("/proc/self/task")):
            pass


async def test_a_missing_directory_is_reported(workspace: Path) -> None:
    with pytest.raises(NotFound, match=r"There is no directory '.*/gone'"):
        async with open_jail(workspace / "gone"):
            pass


def test_root_without_rights_is_refused_and_nothing_runs_as_root(workspace: Path) -> None:
    """Without CAP_SETUID there is no unprivileged user to run as, so no jail."""
    script = (
        "import asyncio, sys, pathlib\n"
        "from hutch.jail.jail_startup import open_jail\n"
        "async def main():\n"
        "    async with open_jail(pathlib.Path(sys.argv[1])) as jail: print(await jail.run(['id']))\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run(
        [
            "setpriv",
            "--bounding-set",
            "-setuid",
            "--inh-caps",
            "-setuid",
            sys.executable,
            "-c",
            script,
            str(workspace),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode != 0
    assert "Unavailable: Root may not act for uid 0 and 2" in ran.stderr
    assert "uid=" not in ran.stdout
