"""The contract of every jail, with isolation or without."""

# ruff: noqa: ASYNC110, ASYNC240 (a look at the host's /proc blocks nobody here)

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.errors import BadRequest, Conflict, Denied, NotFound, Unavailable
from hutch.jail.interface import PIPE, Exit, Jail, LimitHit, Size, StreamName
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import AGENT, Limits, Policy
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio
# Seconds that nobody else sleeps: without walls, those of another worker would be counted, too.
OWN = f"7{os.getpid()}"
LONG_TIMEOUT = replace(AGENT, limits=replace(AGENT.limits, command_timeout_s=DEADLINE_S))


@pytest.fixture(params=["jailed", "unsafe"])
async def jail(request: pytest.FixtureRequest) -> AsyncIterator[Jail]:
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    async with open_jail(directory, LONG_TIMEOUT, unsafe_no_jail=request.param == "unsafe") as opened:
        yield opened
    shutil.rmtree(directory)


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


async def count(jail: Jail, seconds: str) -> int:
    """How many processes there are that sleep for so many seconds; each test has a number of its own."""
    ran = await jail.run(["pgrep", "-c", "-f", "-x", f"sleep {seconds}|python3 -c .*sleep.{seconds}.*"])
    return int(ran.stdout)


async def test_a_command_is_words_and_no_shell_reads_them(jail: Jail) -> None:
    ran = await jail.run(["printf", "%s|", "$HOME", "a b", ";", "*", "é"])
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "$HOME|a b|;|*|é|".encode(), b"")


async def test_streams_come_apart_with_the_exit_code(jail: Jail) -> None:
    ran = await jail.run(sh("echo out; echo err >&2; exit 3"))
    assert (ran.exit_code, ran.signal, ran.stdout, ran.stderr) == (3, None, b"out\n", b"err\n")


async def test_a_signal_is_reported_as_one(jail: Jail) -> None:
    ran = await jail.run(sh("kill -TERM $$"))
    assert (ran.exit_code, ran.signal) == (None, signal.SIGTERM)


async def test_standard_input_is_given_whole_however_large(jail: Jail) -> None:
    ran = await jail.run(["wc", "-c"], stdin=b"x" * 5_000_000)
    assert ran.stdout.strip() == b"5000000"


async def test_standard_input_that_nobody_reads_is_no_trouble(jail: Jail) -> None:
    assert (await jail.run(["true"], stdin=b"x" * 5_000_000)).exit_code == 0


async def test_without_standard_input_there_is_nothing_to_read(jail: Jail) -> None:
    assert (await jail.run(["cat"])).stdout == b""


async def test_the_environment_is_the_jails_and_the_callers(
    jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_SECRET", "the gateway's")
    ran = await jail.run(["env"], env={"MINE": "yes", "LANG": "C"})
    found = dict(line.split("=", 1) for line in ran.stdout.decode().splitlines())
    assert found.keys() - {"PWD"} == {
        *(
            "PATH",
            "HOME",
            "USER",
            "LOGNAME",
            "SHELL",
            "LANG",
            "TERM",
            "TMPDIR",
            "MINE",
            "PYTHONDONTWRITEBYTECODE",
        )
    }
    assert (found["MINE"], found["LANG"]) == ("yes", "C")


async def test_a_directory_is_below_the_workspace_unless_absolute(jail: Jail) -> None:
    await jail.run(["mkdir", "-p", "a/b"])
    assert (await jail.run(["pwd"], cwd="a/b")).stdout.decode() == f"{jail.workspace}/a/b\n"
    assert (await jail.run(["pwd"], cwd="/usr")).stdout == b"/usr\n"


@pytest.mark.parametrize(
    ("argv", "cwd", "error", "message"),
    [
        (["nonesuch"], None, NotFound, "no program 'nonesuch'"),
        (["/etc/localtime/x"], None, BadRequest, "Not a directory"),
        (["true"], "nowhere", NotFound, "Cannot start in '.*nowhere'"),
        (["/usr"], None, Denied, "'/usr' is not executable"),
        ([], None, BadRequest, "command is empty"),
        (["a\0b"], None, BadRequest, "NUL byte"),
    ],
)
async def test_what_cannot_start_says_why(
    jail: Jail, argv: list[str], cwd: str | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await jail.run(argv, cwd=cwd)
    assert (await jail.run(["true"])).exit_code == 0


@pytest.mark.parametrize(
    ("argv", "more", "message"),
    [
        ("ls -la", {}, "The command is text, not a list"),
        (b"ls", {}, "The command is of type bytes, not a list"),
        ([b"ls"], {}, "is of type bytes. Give text"),
        (["cat"], {"stdin": "text"}, r"stdin is text. Give bytes, for example text.encode\(\)"),
        (["env"], {"env": {"N": 1}}, "is of type int. Give text"),
        (["true"], {"cwd": b"/"}, "is of type bytes. Give text"),
        (["true"], {"timeout_s": "5"}, "timeout_s is text"),
    ],
)
async def test_arguments_of_the_wrong_type_are_refused(
    jail: Jail, argv: Any, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        await jail.run(argv, **more)
    assert (await jail.run(["true"])).exit_code == 0


async def test_a_program_of_the_current_directory_is_not_found_by_its_bare_name(jail: Jail) -> None:
    await jail.run(sh("printf '#!/bin/sh\\necho mine' > tool; chmod +x tool"))
    assert (await jail.run(["./tool"])).stdout == b"mine\n"
    with pytest.raises(NotFound):
        await jail.run(["tool"])


async def test_output_is_seen_while_it_comes(jail: Jail) -> None:
    seen: list[tuple[StreamName, bytes]] = []
    await jail.run(
        sh("echo a; sleep 0.1; echo b >&2"), on_output=lambda name, data: seen.append((name, data))
    )
    assert seen == [("stdout", b"a\n"), ("stderr", b"b\n")]


async def test_too_much_output_keeps_its_ends_in_memory_and_the_whole_in_a_file(jail: Jail) -> None:
    limits = Limits(output_bytes=1000, output_file_bytes=50_000)
    ran = await jail.run(sh("echo warned >&2; seq 1 10000"), limits=limits)
    assert ran.truncated
    assert ran.stdout.startswith(b"1\n2\n3\n")
    assert ran.stdout.endswith(b"9999\n10000\n")
    assert b"bytes omitted" in ran.stdout
    assert len(ran.stdout) < 1100
    assert ran.output_path is not None
    assert ran.output_path.stat().st_size == 48_894 + len("warned\n")


async def test_a_timeout_ends_the_whole_tree_and_keeps_the_output(jail: Jail) -> None:
    script = f"""
        (setsid sh -c 'trap "" TERM HUP; env -i sleep {OWN}1' &)
        setsid -f python3 -c 'import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep({OWN}1)'
        echo begun; sleep {OWN}1
    """
    for timeout_s in (3, 30, DEADLINE_S):
        ran = await jail.run(sh(script), timeout_s=timeout_s)
        if ran.stdout:  # else the machine was too busy for it to begin
            break
    assert (ran.timed_out, ran.stdout, ran.signal) == (True, b"begun\n", signal.SIGKILL)
    assert ran.limit_hit == LimitHit("command_timeout_s", f"{timeout_s:g} s")
    assert await count(jail, f"{OWN}1") == 0


async def test_cancelling_ends_the_whole_tree(jail: Jail) -> None:
    running = asyncio.create_task(jail.run(sh(f"setsid -f sleep {OWN}2; sleep {OWN}2")))
    while await count(jail, f"{OWN}2") < 2:
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await count(jail, f"{OWN}2") == 0


async def test_a_child_that_keeps_the_output_open_is_not_waited_for(jail: Jail) -> None:
    ran = await jail.run(sh(f"sleep {OWN}3 & echo started"))
    assert (ran.exit_code, ran.stdout) == (0, b"started\n")
    async with asyncio.timeout(DEADLINE_S):
        while await count(jail, f"{OWN}3") != 1:  # it may not have become a sleep yet
            await asyncio.sleep(0.02)


async def test_killing_reaches_what_outlived_its_command(jail: Jail) -> None:
    process = await jail.spawn(sh(f"setsid -f sleep {OWN}4; exit 5"))
    assert (await process.wait()).code == 5
    await process.kill()
    assert await count(jail, f"{OWN}4") == 0
    process.close()


async def test_killing_one_command_spares_the_others(jail: Jail) -> None:
    doomed = await jail.spawn(sh(f"sleep {OWN}5 & sleep {OWN}5"))
    other = await jail.spawn(sh(f"sleep {OWN}6 & sleep {OWN}6"))
    while await count(jail, f"{OWN}5") + await count(jail, f"{OWN}6") < 4:
        await asyncio.sleep(0.02)
    await doomed.kill()
    assert await doomed.wait() == Exit(None, 9, *_measured(await doomed.wait()))
    assert (await count(jail, f"{OWN}5"), await count(jail, f"{OWN}6")) == (0, 2)
    for process in (doomed, other):
        process.close()


async def test_a_signal_goes_to_the_process_group(jail: Jail) -> None:
    process = await jail.spawn(sh("trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.05; done"))
    assert process.stdout is not None
    assert await process.stdout.read() == b"ready\n"
    await process.signal(signal.SIGINT)
    assert (await process.wait()).code == 4
    assert await process.stdout.read() == b"caught\n"
    process.close()


async def test_a_command_can_be_talked_to(jail: Jail) -> None:
    process = await jail.spawn(["cat"], stdin=PIPE)
    assert process.stdin is not None and process.stdout is not None
    for word in (b"one", b"two"):
        await process.stdin.write(word)
        assert await process.stdout.read() == word
    process.stdin.close()
    assert await process.stdout.read() == b""
    assert (await process.wait()).code == 0
    process.close()


async def test_an_unread_pipe_holds_the_command_back(jail: Jail) -> None:
    process = await jail.spawn(["head", "-c", "3000000", "/dev/zero"])
    assert process.stdout is not None
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await process.wait()
    read = 0
    while data := await process.stdout.read():
        read += len(data)
    assert (read, (await process.wait()).code) == (3_000_000, 0)
    process.close()


async def test_cpu_time_and_peak_memory_are_reported(jail: Jail) -> None:
    ran = await jail.run(["python3", "-c", "x = b'x' * 80_000_000; sum(range(3_000_000))"])
    assert 80_000_000 < ran.peak_bytes < 200_000_000
    assert 0.02 < ran.cpu_s < 5


async def test_a_terminal_is_a_real_one(jail: Jail) -> None:
    process = await jail.spawn(
        sh("tty; stty size; test -t 2 && echo tty2; echo to-tty > /dev/tty; exec cat < $(tty)"),
        terminal=Size(30, 100),
    )
    assert process.stdout is not None and process.stdin is not None and process.terminal is not None
    shown = b""
    while b"to-tty" not in shown and (data := await process.stdout.read()):
        shown += data
    assert shown.replace(b"\r", b"").split(b"\n")[1:4] == [b"30 100", b"tty2", b"to-tty"]
    await process.stdin.write(b"\x03")
    assert (await process.wait()).signal == signal.SIGINT
    process.close()


async def test_a_server_inside_can_be_reached(jail: Jail) -> None:
    server = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
        "c, _ = s.accept(); c.sendall(b'from inside'); c.close()"
    )
    process = await jail.spawn(["python3", "-c", server])
    assert process.stdout is not None
    port = int(await process.stdout.read())
    reader, writer = await asyncio.open_connection(sock=await jail.connect(port))
    assert await reader.read() == b"from inside"
    writer.close()
    assert (await process.wait()).code == 0
    with pytest.raises(NotFound, match=f"Nothing answers on port {port}"):
        await jail.connect(port)
    process.close()


async def test_a_server_out_here_can_listen_inside(jail: Jail) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.readline())
        writer.close()

    sock = await jail.listen()
    port = sock.getsockname()[1]
    server = await asyncio.start_server(greet, sock=sock)
    client = (
        f"import socket; s = socket.create_connection(('127.0.0.1', {port})); s.sendall(b'you\\n')\n"
        "print(s.recv(99).decode(), end='')"
    )
    assert (await jail.run(["python3", "-c", client])).stdout == b"hello you\n"
    with pytest.raises(Conflict, match="in use"):
        await jail.listen(port)
    server.close()


async def test_clearing_ends_everything_and_the_jail_goes_on(jail: Jail) -> None:
    await jail.run(sh(f"setsid -f sleep {OWN}7; sleep {OWN}7 &"))
    process = await jail.spawn(["sleep", f"{OWN}7"])
    await jail.clear()
    assert (await process.wait()).signal == signal.SIGKILL
    assert await count(jail, f"{OWN}7") == 0
    process.close()


async def test_many_commands_at_once(jail: Jail) -> None:
    ran = await asyncio.gather(*(jail.run(sh(f"sleep 0.05; echo {number}")) for number in range(40)))
    assert [each.stdout for each in ran] == [b"%d\n" % number for number in range(40)]


async def test_a_command_longer_than_a_frame(jail: Jail) -> None:
    words = ["x" * 1000] * 500
    assert (await jail.run([*sh('echo "$#"'), "sh", *words])).stdout == b"500\n"


async def test_a_command_may_have_limits_of_its_own(jail: Jail) -> None:
    limited = await jail.run(sh("ulimit -n; ulimit -Hn"), limits=Limits(open_files=64))
    assert limited.stdout == b"64\n64\n"
    assert (await jail.run(sh("ulimit -Hn"))).stdout != b"64\n"


async def test_a_file_that_grows_too_large_names_its_limit(jail: Jail) -> None:
    ran = await jail.run(["truncate", "-s", "3M", "big"], limits=Limits(file_bytes=1_048_576))
    assert ran.limit_hit == LimitHit("file_bytes", "1 MiB")


async def test_cpu_time_has_a_limit(jail: Jail) -> None:
    ran = await jail.run(sh("while :; do :; done"), limits=Limits(cpu_time_s=1), timeout_s=DEADLINE_S)
    assert ran.limit_hit == LimitHit("cpu_time_s", "1 s")


async def test_a_closed_jail_says_so(jail: Jail) -> None:
    process = await jail.spawn(["sleep", "7008"])
    await jail.close()
    assert (await process.wait()).signal == signal.SIGKILL
    with pytest.raises(Unavailable, match="closed"):
        await jail.run(["true"])
    await jail.close()
    process.close()


async def test_an_allow_list_is_kept(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    async with open_jail(tmp_path, Policy(commands=("echo",)), unsafe_no_jail=True) as jail:
        assert (await jail.run(["echo", "hi"])).stdout == b"hi\n"
        for refused in ("/bin/echo", "sh"):
            with pytest.raises(Denied, match=f"'{refused}' is not among the allowed commands: echo"):
                await jail.run([refused])


async def test_an_error_in_the_callers_callback_is_the_callers(jail: Jail) -> None:
    def fail(name: StreamName, data: bytes) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await jail.run(["echo", "x"], on_output=fail)


async def test_a_timeout_beyond_bounds_is_refused(jail: Jail) -> None:
    assert jail.policy == LONG_TIMEOUT
    with pytest.raises(BadRequest, match="at most 600"):
        await jail.run(["true"], timeout_s=601)


def _measured(ended: Exit) -> tuple[float, int]:
    return ended.cpu_s, ended.peak_bytes
