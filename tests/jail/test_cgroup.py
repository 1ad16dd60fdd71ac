"""Finding our own cgroup, in version 1, version 2 and without either."""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from hutch.jail.limits.cgroup import (
    LEAF,
    NEEDED,
    Cgroup,
    ParentGroups,
    delegate,
    find_parent_groups,
    make,
    prefer_self,
    remove,
)
from hutch.jail.limits.cgroup import settings as settings_of
from hutch.jail.policy import Limits
from tests.deadline import DEADLINE_S


def machine(root: Path, cgroup: str, mounts: str, files: dict[str, str]) -> Path:
    """A copy of the parts of /proc and /sys that are read."""
    for name, text in {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mounts, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_version_2_when_it_is_delegated(tmp_path: Path) -> None:
    own = "sys/fs/cgroup/user.slice/hutch.scope"
    root = machine(
        tmp_path,
        "0::/user.slice/hutch.scope\n",
        "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        {f"{own}/cgroup.controllers": "cpu memory pids\n", f"{own}/cgroup.procs": ""},
    )
    group_path = root / own
    assert find_parent_groups(root) == ParentGroups(
        2, {"memory": group_path, "pids": group_path, "cpu": group_path}
    )


def test_groups_are_not_nested_deeper_by_each_process_that_a_moved_shell_starts(tmp_path: Path) -> None:
    own = "sys/fs/cgroup/user.slice/hutch.scope"
    files = {"cgroup.controllers": "cpu memory pids\n", "cgroup.procs": ""}
    root = machine(
        tmp_path,
        f"0::/user.slice/hutch.scope/{LEAF}\n",
        "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        {f"{group}/{name}": text for group in (own, f"{own}/{LEAF}") for name, text in files.items()},
    )
    found = find_parent_groups(root)
    assert found is not None and set(found.directories.values()) == {root / own}


def test_processes_that_start_and_end_meanwhile_are_moved_or_left_out() -> None:
    """On a real hierarchy of version 2. Where it has no controller, enabling one fails after the move."""
    mounts = (line.split(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines())
    top = next((Path(before.split()[4]) for before, after in mounts if after.startswith("cgroup2 ")), None)
    if top is None or not os.access(top / "cgroup.procs", os.W_OK):
        pytest.skip("no hierarchy of version 2 that this user may change")
    group = top / f"hutch-test-{os.getpid()}"
    group.mkdir()
    loop = f"echo $$ > {group}/cgroup.procs; while :; do /bin/true; /bin/true & wait; done"
    shells = [subprocess.Popen(["/bin/sh", "-c", loop], start_new_session=True) for _ in range(3)]
    try:
        for _ in range(20):
            has_controllers = bool((group / "cgroup.controllers").read_text().strip())
            with nullcontext() if has_controllers else suppress(FileNotFoundError):
                delegate(group, frozenset((group / "cgroup.controllers").read_text().split()) or NEEDED)
                assert (group / "cgroup.procs").read_text() == ""
            if not has_controllers:  # once more: move all back
                for pid in (group / LEAF / "cgroup.procs").read_text().split():
                    with suppress(ProcessLookupError):
                        (group / "cgroup.procs").write_text(pid)
    finally:
        for shell in shells:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        for directory in (group / LEAF, group):
            remove(directory, timeout_s=DEADLINE_S)


def test_other_mounts_are_not_inspected(tmp_path: Path) -> None:
    cannot = "/sys/" + "t" * 300  # no file system takes such a name: looking fails, as where one may not
    root = machine(
        tmp_path,
        "0::/x\n",
        f"30 23 0:12 / {cannot} rw - tracefs none rw\n31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        {"sys/fs/cgroup/x/cgroup.controllers": "cpu memory pids\n", "sys/fs/cgroup/x/cgroup.procs": ""},
    )
    found = find_parent_groups(root)
    assert found is not None and found.version == 2


def test_version_2_without_its_controllers_is_no_home(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "0::/x\n",
        "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        {"sys/fs/cgroup/x/cgroup.controllers": "cpu\n", "sys/fs/cgroup/x/cgroup.procs": ""},
    )
    assert find_parent_groups(root) is None


def test_version_1_below_the_group_that_a_container_shows(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "3:pids:/docker/abc/hutch\n2:memory:/docker/abc\n1:name=systemd:/\n0::/\n",
        "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "36 31 0:33 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
        {
            "sys/fs/cgroup/memory/cgroup.procs": "",
            "sys/fs/cgroup/pids/hutch/cgroup.procs": "",
        },
    )
    assert find_parent_groups(root) == ParentGroups(
        1, {"memory": root / "sys/fs/cgroup/memory", "pids": root / "sys/fs/cgroup/pids/hutch"}
    )


def test_a_group_that_cannot_be_made_whole_is_not_made(tmp_path: Path) -> None:
    parents = ParentGroups(1, {"memory": tmp_path, "pids": tmp_path / "missing"})
    assert make(parents, Limits()) is None
    assert list(tmp_path.iterdir()) == []


def test_a_jail_has_the_share_of_an_ordinary_program_and_a_server_has_more(tmp_path: Path) -> None:
    for version, name, usual in ((1, "cpu.shares", 1024), (2, "cpu.weight", 100)):
        own = tmp_path / str(version)
        own.mkdir()
        (own / "cgroup.procs").touch()
        (own / "cgroup.controllers").write_text("cpu memory pids")
        (own / "cgroup.subtree_control").write_text("cpu memory pids")
        (own / LEAF).mkdir()
        parents = ParentGroups(version, dict.fromkeys(("memory", "pids", "cpu"), own))
        assert settings_of(version, Limits())["cpu"] == {name: str(usual)}
        group = prefer_self(parents)
        assert group is not None and group.parent == own
        assert (group / name).read_text() == str(16 * usual)
        assert (group / "cgroup.procs").read_text() == str(os.getpid())


def test_a_preferred_process_can_be_moved_back(tmp_path: Path) -> None:
    """In the groups of this machine, where there are any."""
    program = (
        "from hutch.jail.limits import limit_enforcement\n"
        "from pathlib import Path\n"
        "def where(): return Path('/proc/self/cgroup').read_text()\n"
        "home, before = limit_enforcement._parent_groups(), where()\n"
        "with limit_enforcement.preferring_self(): inside = where()\n"
        "known = home is not None and 'cpu' in home.directories\n"
        "print(known, before != inside, home and home.version == 2 or where() == before)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    known, moved, back = ran.stdout.split()
    assert (moved == known) and back == "True"


def test_counters_of_a_removed_group_can_still_be_read(tmp_path: Path) -> None:
    """A thread that watches a jail may read once more while it closes, when the descriptors are closed."""
    for name in ("memory.events", "pids.events", "memory.current"):
        (tmp_path / name).write_text("oom_kill 2\nmax 3\n" if name.endswith("events") else "4096\n")
    group = Cgroup(2, dict.fromkeys(("memory", "pids"), tmp_path))
    read = (group.kills, group.refused_forks, group.used_bytes)
    assert [each() for each in read] == [2, 3, 4096]
    for file in tmp_path.iterdir():
        file.unlink()
    group.remove()
    assert [each() for each in read] == [2, 3, 0]
