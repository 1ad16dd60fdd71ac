"""Weaknesses found by probing bubblewrap, which must stay closed."""

# ruff: noqa: ASYNC240 (reading the host's /proc is fast enough here)

import asyncio
import os
import signal
from pathlib import Path

import pytest

from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.policy import Policy

pytestmark = pytest.mark.anyio


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


async def python(jail: Jailed, script: str) -> str:
    ran = await jail.run(["python3", "-c", script])
    assert ran.stderr == b""
    return ran.stdout.decode().strip()


async def test_no_process_inside_is_root_and_the_uid_is_the_same_on_both_sides(jail: Jailed) -> None:
    inside = int((await jail.run(["id", "-u"])).stdout)
    process = await jail.spawn(["sleep", "60"])
    outside = {
        Path(f"/proc/{pid}").stat().st_uid
        for pid in map(
            int, Path(f"/proc/{jail.warden_pid}/task/{jail.warden_pid}/children").read_text().split()
        )
    } - {0}  # reapers are not dumpable: their files are root's
    assert inside != 0
    assert outside <= {inside}
    status = Path(f"/proc/{jail.warden_pid}/status").read_text()
    assert f"Uid:\t{inside}\t{inside}\t{inside}\t{inside}\n" in status
    await process.kill()
    process.close()


async def test_two_jails_of_root_are_two_users(workspace: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("an ordinary user has but one uid")
    async with open_jail(workspace) as one, open_jail(workspace) as other:
        ids = {(await jail.run(["id", "-u"])).stdout for jail in (one, other)}
    assert len(ids) == 2


async def test_sysctls_cannot_be_written(jail: Jailed) -> None:
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    ran = await jail.run(
        sh("echo '|/tmp/evil' > /proc/sys/kernel/core_pattern; echo 1 > /proc/self/oom_score_adj")
    )
    assert ran.exit_code != 0
    assert b"core_pattern: Read-only file system" in ran.stderr
    assert b"oom_score_adj: Read-only file system" in ran.stderr
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


async def test_neither_environment_nor_options_of_the_host_show(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_SECRET", "the gateway's")
    look = sh("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'")
    async with open_jail(workspace) as jail:
        seen = (await jail.run(look)).stdout
    assert b"GATEWAY_SECRET" not in seen
    assert b"--bind" not in seen
    assert b"bwrap" not in seen


async def test_a_command_inherits_three_descriptors(jail: Jailed) -> None:
    assert (await jail.run(["ls", "/proc/self/fd"])).stdout.split() == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]  # 3: the listing
    process = await jail.spawn(["sleep", "60"])  # its pipes are open while the next one starts
    assert (await jail.run(["ls", "/proc/self/fd"])).stdout.split() == [b"0", b"1", b"2", b"3"]
    await process.kill()
    process.close()


async def test_the_wardens_memory_and_descriptors_are_out_of_reach(jail: Jailed) -> None:
    reached = await python(
        jail,
        "import os\n"
        "for pid in ('1', str(os.getppid())):\n"
        "    for name in ('mem', 'environ', 'fd', 'fdinfo', 'maps', 'root'):\n"
        "        path = f'/proc/{pid}/{name}'\n"
        "        try: (os.listdir if name in ('fd', 'fdinfo', 'root') else open)(path); print(path)\n"
        "        except OSError: pass\n",
    )
    assert reached == ""


async def test_the_first_process_cannot_be_killed_stopped_or_interrupted(jail: Jailed) -> None:
    await jail.run(sh("for n in $(seq 1 64); do kill -$n 1 2>/dev/null; done; true"))
    assert (await jail.run(["echo", "still here"])).stdout == b"still here\n"


async def test_only_the_places_meant_for_it_can_be_written(jail: Jailed) -> None:
    script = """
        for place in / /usr /etc /dev /proc /run /run/hutch /var /home /sys /mnt \
                     /tmp /dev/shm /home/hutch /workspace /var/tmp; do
            (: > $place/probe) 2>/dev/null && echo $place
        done; true
    """
    written = (await jail.run(sh(script))).stdout.decode().split()
    assert written == ["/tmp", "/dev/shm", "/home/hutch", "/workspace", "/var/tmp"]


async def test_tmpfs_has_a_size(jail: Jailed) -> None:
    ran = await jail.run(["df", "-k", "--output=size", "/tmp", "/dev/shm", "/home/hutch"])
    assert ran.stdout.split()[1:] == [b"1048576", b"65536", b"524288"]


async def test_nothing_of_the_hosts_homes_run_or_var_is_there(jail: Jailed) -> None:
    ran = await jail.run(sh("ls -A /home /run /var /root /srv /sys /mnt /opt /boot 2>/dev/null"))
    assert set(ran.stdout.decode().split()) == {
        *("/home:", "hutch", "/run:", "/var:", "tmp", "/sys:", "/mnt:"),
    }


async def test_etc_holds_no_secrets_and_other_users(jail: Jailed) -> None:
    ran = await jail.run(
        sh("ls /etc/shadow /etc/ssh /etc/sudoers /etc/ssl/private 2>/dev/null; wc -l < /etc/passwd")
    )
    assert ran.stdout == b"3\n"


async def test_the_clock_the_name_and_the_namespaces_are_fixed(jail: Jailed) -> None:
    ran = await jail.run(
        sh("hostname other; date -s 2001-01-01; unshare -U true; unshare -m true; unshare -n true; hostname")
    )
    assert ran.stdout.splitlines()[-1] == b"hutch"
    assert ran.stderr.count(b"Operation not permitted") + ran.stderr.count(b"must be root") == 5


async def test_the_network_is_loopback_alone(jail: Jailed) -> None:
    assert (await jail.run(sh("tail -n +3 /proc/net/dev | cut -d: -f1"))).stdout.split() == [b"lo"]
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    refused = await python(
        jail,
        f"import socket; s = socket.socket(); print(s.connect_ex(('127.0.0.1', {port})))",
    )
    assert refused == "111"
    server.close()


async def test_a_set_user_id_file_cannot_be_left_behind(jail: Jailed, workspace: Path) -> None:
    ran = await jail.run(
        sh("cp /bin/true plain && cp plain evil && chmod 4755 evil; install -m 6755 plain evil2")
    )
    assert ran.stderr.count(b"Operation not permitted") >= 2
    assert all(not path.stat().st_mode & 0o6000 for path in workspace.iterdir())


async def test_standard_streams_can_be_opened_by_name(jail: Jailed) -> None:
    ran = await jail.run(
        sh("echo out > /dev/stdout; echo err | tee /dev/stderr >/dev/null; cat /dev/stdin"), stdin=b"in"
    )
    assert (ran.stdout, ran.stderr) == (b"out\nin", b"err\n")


async def test_git_finds_its_own_files(jail: Jailed) -> None:
    ran = await jail.run(
        sh("git init -q . && echo x > f && git add f && git -c user.email=a@b -c user.name=n commit -qm m")
    )
    assert (ran.exit_code, ran.stderr) == (0, b"")
    assert (await jail.run(["git", "status", "--porcelain"])).stdout == b""


async def test_a_directory_can_be_visible_but_read_only(workspace: Path) -> None:
    shown = workspace / "shown"
    shown.mkdir(mode=0o777)
    inner = workspace / "work"
    inner.mkdir()
    (shown / "tool").write_text("t")
    async with open_jail(inner, Policy(readonly=(str(shown),), writable=False)) as jail:
        assert (await jail.run(["cat", f"{shown}/tool"])).stdout == b"t"
        for path in (f"{shown}/new", "/workspace/new"):
            assert b"Read-only file system" in (await jail.run(["touch", path])).stderr


async def test_closing_kills_daemons_that_ignore_every_signal(workspace: Path) -> None:
    async with open_jail(workspace) as jail:
        for _ in range(6):
            await jail.run(sh("setsid -f sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done'"))
        warden = jail.warden_pid
    assert not Path(f"/proc/{warden}").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(warden, signal.SIGCONT)


async def test_a_link_to_the_workspace_leads_there_and_shows_nothing_else(workspace: Path) -> None:
    (workspace / "file").write_text("found")
    host = Path(__file__).resolve().parent  # exists out here: what is around it must not show
    places = (str(host), "/home/somebody/repo", "/tmp/a/b", "/srv/deep/down/repo", "/usr/bin/repo", "/etc")
    look = "for place; do cat $place/file || echo none; ls -A $(dirname $place) | wc -l; done; id -u > /tmp/x"
    async with open_jail(workspace, Policy(also_at=places)) as jail:
        ran = await jail.run(["/bin/sh", "-c", f"({look}) 2>/dev/null", "look", *places[:4]])
        assert ran.stdout.decode().split() == ["found1"] * 4
        ran = await jail.run(sh("ls -d /usr/bin/repo; cat /etc/file; mkdir /srv/deep/new"))
        assert (ran.stdout, ran.stderr.count(b"No such file"), ran.stderr.count(b"Read-only")) == (b"", 2, 1)
