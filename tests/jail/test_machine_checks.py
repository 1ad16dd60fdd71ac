"""Requirements of a jail are found, and missing ones come with their fix."""

import os
import shutil
from pathlib import Path

import pytest

from hutch.jail.machine_checks import (
    APPARMOR_FIX,
    DELEGATION_FIX,
    FALLBACK,
    Check,
    apparmor,
    attempt,
    bubblewrap,
    cgroups,
    jail,
    jail_checks,
    jail_fix,
    process_list,
    seccomp,
    user_namespaces,
    version_of,
)


def machine(root: Path, files: dict[str, str]) -> Path:
    """A copy of the parts of /proc, /sys and /usr that a check reads."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_real_jail_runs_here() -> None:
    check = jail(shutil.which("bwrap"))
    assert (check.name, check.status, check.fix) == ("jail", "ok", "")
    assert ("uid 65534" in check.found) == (os.geteuid() == 0)


def test_this_machine_fails_nothing() -> None:
    checks = jail_checks()
    assert [check for check in checks if check.status == "fail"] == []
    assert [check.name for check in checks] == [
        "bwrap",
        "user namespaces",
        "apparmor",
        "seccomp",
        "cgroups",
        "process list",
        "jail",
    ]


def test_a_missing_bwrap_is_installed_by_apt() -> None:
    fix = "sudo apt-get install -y bubblewrap"
    assert bubblewrap(None) == Check("bwrap", "fail", "bwrap is not on PATH; nothing can be jailed", fix)
    assert jail(None) == Check("jail", "fail", "not tried: there is no bwrap", fix)


def test_an_old_bwrap_is_refused(tmp_path: Path) -> None:
    old = program(tmp_path / "bwrap", "echo bubblewrap 0.6.1")
    check = bubblewrap(old)
    assert (check.status, check.found) == ("fail", f"0.6.1 at {old}, older than 0.8")


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("bwrap: setting up uid map: Permission denied", APPARMOR_FIX),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", APPARMOR_FIX),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
        ("bwrap: No permissions to create new namespace", "seccomp=unconfined"),
    ],
)
def test_a_message_of_bwrap_leads_to_a_remedy(said: str, fix: str) -> None:
    assert fix in jail_fix(said)


def test_a_failed_jail_is_reported_with_the_message_of_bwrap(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    broken = program(tmp_path / "bwrap", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    check = jail(broken)
    assert check.status == "fail"
    if os.geteuid() != 0:  # root drops its privileges first, and then may not reach this directory
        assert check.found.startswith("bwrap: setting up uid map: Permission denied")


@pytest.mark.parametrize(
    ("sysctl", "wanted"),
    [
        ("user.max_user_namespaces", "15000"),
        ("kernel.unprivileged_userns_clone", "1"),
    ],
)
def test_a_sysctl_that_forbids_user_namespaces_is_named(tmp_path: Path, sysctl: str, wanted: str) -> None:
    root = machine(tmp_path, {"proc/self/ns/user": "", f"proc/sys/{sysctl.replace('.', '/')}": "0\n"})
    assert user_namespaces(root) == Check(
        "user namespaces",
        "fail",
        f"switched off by {sysctl} = 0",
        f"echo '{sysctl} = {wanted}' | sudo tee /etc/sysctl.d/60-hutch.conf && sudo sysctl --system",
    )


def test_a_kernel_without_user_namespaces_fails(tmp_path: Path) -> None:
    assert user_namespaces(tmp_path).status == "fail"


UBUNTU_24_04 = {
    "sys/module/apparmor/parameters/enabled": "Y\n",
    "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
}


def test_apparmor_that_forbids_namespaces_for_bwrap_fails_with_a_profile(tmp_path: Path) -> None:
    check = apparmor(machine(tmp_path, UBUNTU_24_04), bwrap_works=False)
    assert check == Check("apparmor", "fail", "forbids user namespaces for bwrap", APPARMOR_FIX)
    assert "apparmor_parser -r /etc/apparmor.d/bwrap" in check.fix
    assert "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" in check.fix


def test_apparmor_is_fine_once_bwrap_has_a_profile(tmp_path: Path) -> None:
    assert apparmor(machine(tmp_path, UBUNTU_24_04), bwrap_works=True).status == "ok"


def test_no_apparmor_is_fine(tmp_path: Path) -> None:
    assert apparmor(tmp_path, bwrap_works=False) == Check("apparmor", "ok", "not in use")


def test_a_kernel_that_cannot_filter_system_calls_fails(tmp_path: Path) -> None:
    root = machine(tmp_path, {"proc/sys/kernel/seccomp/actions_avail": "kill_thread trap errno\n"})
    check = seccomp(root)
    assert (check.status, check.found) == ("fail", "this kernel cannot filter system calls (no kill_process)")


def test_a_delegated_cgroup_is_found(tmp_path: Path) -> None:
    own = "sys/fs/cgroup/user.slice/hutch.scope"
    files = {
        "proc/self/cgroup": "0::/user.slice/hutch.scope\n",
        "sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n",
        f"{own}/cgroup.controllers": "memory pids\n",
        f"{own}/cgroup.procs": "",
    }
    assert cgroups(machine(tmp_path, files)) == Check(
        "cgroups", "ok", "v2, cgroup/user.slice/hutch.scope is delegated"
    )


def test_a_cgroup_without_controllers_is_a_warning(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/session.scope\n",
        "sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n",
        "sys/fs/cgroup/session.scope/cgroup.controllers": "\n",
        "sys/fs/cgroup/session.scope/cgroup.procs": "",
    }
    check = cgroups(machine(tmp_path, files))
    assert check == Check("cgroups", "warn", f"v2, but none is delegated; {FALLBACK}", DELEGATION_FIX)
    assert "systemd-run --user --scope -p Delegate=yes" in check.fix
    assert "loginctl enable-linger" in check.fix


def test_no_cgroups_are_a_warning_and_no_reason_to_be_root(tmp_path: Path) -> None:
    check = cgroups(tmp_path)
    assert check.status == "warn"
    assert "rlimits" in check.found and "watcher" in check.found
    assert "as root" not in check.fix


def test_a_check_that_raises_counts_as_failed() -> None:
    def broken() -> Check:
        raise PermissionError("not for you")

    check = attempt("disk", broken)
    assert (check.name, check.status) == ("disk", "fail")
    assert check.found.startswith(
        "the check itself failed: PermissionError: not for you (test_machine_checks.py line "
    )


def test_other_checks_run_after_one_that_raises(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel/seccomp").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/seccomp/actions_avail").write_bytes(b"\xff\xfe")
    checks = {check.name: check for check in jail_checks(tmp_path)}
    assert "UnicodeDecodeError" in checks["seccomp"].found
    assert set(checks) == {
        *("bwrap", "user namespaces", "apparmor", "seccomp", "cgroups", "process list", "jail"),
    }


def test_a_kernel_that_lists_no_children_is_a_warning(tmp_path: Path) -> None:
    assert process_list().status == "ok"
    check = process_list(tmp_path)
    assert (check.status, "CONFIG_PROC_CHILDREN" in check.fix) == ("warn", True)


def test_a_program_that_prints_no_version_has_none(tmp_path: Path) -> None:
    assert version_of([program(tmp_path / "dumb", "echo hello")]) is None
    assert version_of([str(tmp_path / "absent")]) is None
    assert version_of([program(tmp_path / "tells", "echo tells 12.3.4-beta")]) == (12, 3, 4)
