"""A policy fully determines a jail, and its options are readable."""

import pytest

from hutch.domain.errors import BadRequest
from hutch.jail.launch.visible_system_files import System
from hutch.jail.policy import GIB, MIB, PROFILES, Limits, Policy, arguments, environment, etc_files, profile

MACHINE = System(
    directories=("/usr",),
    links=(("/bin", "usr/bin"), ("/lib", "usr/lib")),
    etc=("/etc/ssl/certs",),
    etc_links=(("/etc/localtime", "/usr/share/zoneinfo/UTC"),),
    masked=("/proc/keys",),
    python="/usr/bin/python3",
)


def options(policy: Policy) -> list[str]:
    return arguments(
        policy,
        MACHINE,
        workspace="/srv/repo",
        uid=1000,
        gid=1001,
        files={"/etc/passwd": 7, "/run/hutch/warden.py": 8},
        seccomp_fd=9,
    )


def test_the_options_of_an_agents_jail() -> None:
    assert " ".join(options(Policy(readonly=("/opt/tools",)))) == (
        "--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup "
        "--disable-userns --assert-userns-disabled --uid 1000 --gid 1001 --hostname hutch "
        "--new-session --die-with-parent --as-pid-1 --cap-drop ALL "
        "--perms 0755 --dir /etc --perms 0755 --dir /etc/ssl --perms 0755 --dir /run "
        "--perms 0755 --dir /run/hutch "
        "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib "
        "--ro-bind /etc/ssl/certs /etc/ssl/certs --symlink /usr/share/zoneinfo/UTC /etc/localtime "
        "--perms 0444 --file 7 /etc/passwd --perms 0444 --file 8 /run/hutch/warden.py "
        "--symlink /usr/bin/python3 /run/hutch/warden "
        "--proc /proc --ro-bind /dev/null /proc/keys --remount-ro /proc "
        "--dev /dev --perms 1777 --size 67108864 --tmpfs /dev/shm --remount-ro /dev "
        "--perms 1777 --size 1073741824 --tmpfs /tmp "
        "--dir /home --perms 0755 --size 536870912 --tmpfs /home/hutch "
        "--dir /var --symlink /tmp /var/tmp --dir /mnt --dir /sys "
        "--ro-bind /opt/tools /opt/tools --bind /srv/repo /workspace "
        "--remount-ro / --chdir /workspace --seccomp 9"
    )


def test_a_workspace_is_linked_at_other_free_paths() -> None:
    places = ("/home/me/repo", "/", "/tmp", "/home", "/home/hutch/repo", "/usr/src/repo", "/bin", "/etc/x")
    places += ("/tmp/repo", "/tmp/repo/self", "/workspace", "/var", "/run/repo", "/x/../usr", "repo", "/opt")
    words = " ".join(options(Policy(also_at=places, readonly=("/opt/tools",))))
    assert words.endswith(
        "--bind /srv/repo /workspace "
        "--perms 0755 --dir /home --perms 0755 --dir /home/me --symlink /workspace /home/me/repo "
        "--perms 0755 --dir /tmp --symlink /workspace /tmp/repo "
        "--remount-ro / --chdir /workspace --seccomp 9"
    )


def test_hidden_directories_are_covered_where_the_jail_would_see_them() -> None:
    hidden = ("/usr/share/questions", "/srv/questions", "/opt/tools/bank", "/usrlocal")
    words = " ".join(options(Policy(readonly=("/opt/tools",), hidden=hidden)))
    cover = "--perms 0555 --size 4096 --tmpfs {0} --remount-ro {0}"
    covers = " ".join(cover.format(each) for each in ("/usr/share/questions", "/opt/tools/bank"))
    assert f"--ro-bind /opt/tools /opt/tools {covers} --bind /srv/repo /workspace" in words
    assert words.count("--tmpfs") == 5


def test_a_workspace_can_be_closed_to_writing() -> None:
    words = options(Policy(writable=False))
    assert words[words.index("/srv/repo") - 1] == "--ro-bind"


def test_the_agents_limits_are_the_documented_ones() -> None:
    assert PROFILES["agent"].limits == Limits(
        processes=512,
        memory_bytes=2 * GIB,
        open_files=4096,
        tmp_bytes=1 * GIB,
        shm_bytes=64 * MIB,
        home_bytes=512 * MIB,
        workspace_growth_bytes=2 * GIB,
        command_timeout_s=30,
        output_bytes=1 * MIB,
    )


def test_a_test_run_gets_30_s_512_mib_and_1_mib_of_output() -> None:
    limits = PROFILES["test"].limits
    assert (limits.command_timeout_s, limits.memory_bytes, limits.output_bytes) == (30, 512 * MIB, MIB)


def test_a_profile_is_selected_by_name_and_changed() -> None:
    assert profile("tool", network=("pypi.example",)).network == ("pypi.example",)
    with pytest.raises(BadRequest, match=r"no jail profile 'toy'. Use one of agent, test, tool"):
        profile("toy")


@pytest.mark.parametrize("timeout_s", [0, -1, 601])
def test_a_timeout_has_bounds(timeout_s: float) -> None:
    with pytest.raises(BadRequest, match="at most 600"):
        Limits(command_timeout_s=timeout_s)


def test_tmpfs_must_leave_memory_for_processes() -> None:
    with pytest.raises(BadRequest, match="files there are memory"):
        Limits(memory_bytes=1 * GIB)


def test_the_environment_is_made_up_and_not_the_hosts() -> None:
    assert environment(Policy(environment=(("CI", "1"),))) == {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": "/home/hutch",
        "USER": "hutch",
        "LOGNAME": "hutch",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PWD": "/workspace",
        "TMPDIR": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CI": "1",
    }


def test_the_jails_user_has_a_name() -> None:
    assert "hutch:x:1000:1001:hutch:/home/hutch:/bin/bash" in etc_files(1000, 1001)["/etc/passwd"]
    assert etc_files(1, 1, 'A "B" \\ C; #x <a@b>')["/etc/gitconfig"] == (
        '[user]\n\tname = "A \\"B\\" \\\\ C; #x"\n\temail = "a@b"\n'
    )
