"""A shell that outlives its commands, whatever they do to it."""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.errors import BadRequest, Conflict
from hutch.jail import open_shell
from hutch.jail.interface import LimitHit
from hutch.jail.jail_processes import below
from hutch.jail.policy import AGENT, MIB, Limits, Policy
from hutch.jail.shell.command_results_and_events import CommandEnded, CommandStarted, ShellEvent
from hutch.jail.shell.shell import Shell
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio

PROGRAMS = ["/bin/sh", "/bin/bash"]


@pytest.fixture(params=PROGRAMS)
async def shell(request: pytest.FixtureRequest, workspace: Path) -> AsyncIterator[Shell]:
    async with open_shell("test", workspace=workspace, shell=request.param) as opened:
        yield opened


# Timeouts of a command that must begin before it is stopped: a busy machine may not run it so soon.
BEGINNINGS_S = (0.3, 3, 30, DEADLINE_S)


async def works(shell: Shell) -> bool:
    """True if the next command works as it should."""
    ran = await shell.run("echo out; echo err >&2; cat; (exit 3)", timeout_s=DEADLINE_S)
    return (ran.stdout, ran.stderr, ran.exit_code, ran.restarted) == ("out\n", "err\n", 3, False)


async def test_output_exit_code_and_directory_are_returned(shell: Shell) -> None:
    ran = await shell.run("cd /tmp && echo out && echo err >&2 && false")
    assert (ran.exit_code, ran.stdout, ran.stderr, ran.cwd) == (1, "out\n", "err\n", "/tmp")
    assert (ran.timed_out, ran.truncated, ran.restarted, ran.signal) == (False, False, False, None)


async def test_a_shell_that_was_started_ahead_runs_the_first_command(shell: Shell) -> None:
    await shell.start()
    first = await shell.run("echo $$")
    await shell.start()  # it is there
    second = await shell.run("echo $$")
    assert first.stdout == second.stdout
    assert (first.restarted, second.restarted) == (False, False)


async def test_directory_variables_functions_options_aliases_and_descriptors_stay(shell: Shell) -> None:
    await shell.run("cd /tmp; x=1; export y=2; f() { echo $x $y; }; set -f; exec 3</etc/passwd; set -- a b")
    await shell.run("alias hello='echo hi'")
    await shell.run("shopt -s expand_aliases 2>/dev/null || :")
    ran = await shell.run("f; pwd; echo *; read line <&3; echo ${line%%:*}; echo $#\nhello")
    assert ran.stdout == "1 2\n/tmp\n*\nroot\n2\nhi\n"


@pytest.mark.parametrize(
    ("command", "stdout"),
    [
        ("for i in 1 2\ndo\n  echo $i\ndone", "1\n2\n"),
        ("cat <<END\nit's $((1 + 1))\nEND", "it's 2\n"),
        ("cat <<'END'\n$x `y` \\ ' \"\nEND", "$x `y` \\ ' \"\n"),
        ("printf no-newline", "no-newline"),
        ("cat", ""),
        ('echo "it\'s"; # comment', "it's\n"),
        ("echo a\\\nb", "ab\n"),
        ("", ""),
        ("# only a comment", ""),
        ("printf 'done 0\\0%s 0 0 /\\0' 0123456789abcdef0123456789abcdef", None),
        ("sleep 100 & echo on", "on\n"),
        ("setsid sleep 100 & (sleep 100 &) ; echo on", "on\n"),
        ("echo é ✓", "é ✓\n"),
        ("IFS=0123456789/; echo on", "on\n"),
        ("exec 9>&-; exec 3>&- 4>&-; echo on", "on\n"),
        ("exec 5>&1 >/dev/null; echo on >&5", "on\n"),
        ("exec 2>&- </dev/zero; echo on", "on\n"),
        ("exec >&-", ""),
        ("PS1='$(echo x) ' PS4=y PS2=z PROMPT_COMMAND='echo prompt'; echo on", "on\n"),
        ("trap 'echo bye' EXIT; trap 'echo usr' USR1; kill -USR1 $$; :; echo on", "usr\non\n"),
        ("unset PWD; echo on", "on\n"),
        ("readonly PATH HOME nonce command; echo on", "on\n"),
        ("set -o posix 2>/dev/null; echo on", None),
        ("sleep 100 & kill -STOP $!; echo on", "on\n"),
        ("umask 077; ulimit -n 300; echo on", "on\n"),
        ("printf() { :; }; command() { :; }; unset_() { :; }; pwd() { :; }; echo on", "on\n"),
        ("alias command=false printf=false eval=false unset=false exec=false; echo on", "on\n"),
        ("head -c 300000 /dev/zero | tr '\\0' 'a' | wc -c", "300000\n"),
        ("set -u; set -C; set -v; set -x; echo on", "on\n"),
    ],
)
async def test_it_gets_along_with(shell: Shell, command: str, stdout: str | None) -> None:
    ran = await shell.run(command, timeout_s=DEADLINE_S)
    assert (ran.timed_out, ran.restarted) == (False, False), ran
    if stdout is not None:
        assert (ran.exit_code, ran.stdout) == (0, stdout), ran
    await shell.run("set +xvu 2>/dev/null", timeout_s=DEADLINE_S)
    assert await works(shell)


@pytest.mark.parametrize(
    "command",
    ["if", 'echo "', "echo '", ")", "cat <<END", "a=(", "set -u; echo $nope", "readonly r=1; r=2", "nope"],
)
async def test_an_error_in_a_command_is_not_the_end(shell: Shell, command: str) -> None:
    await shell.run("kept=1")
    ran = await shell.run(command, timeout_s=DEADLINE_S)
    if "END" not in command:  # a here-document without its end is a warning
        assert ran.exit_code != 0 and ran.stderr, ran
    assert not ran.restarted
    await shell.run("set +u")
    assert (await shell.run("echo $kept")).stdout == "1\n"
    assert await works(shell)


@pytest.mark.parametrize(
    ("command", "exit_code", "signal"),
    [
        ("exit 7", 7, None),
        ("exec true", 0, None),
        ("exec sh -c 'exit 5'", 5, None),
        ("set -e; false; echo no", 1, None),
        ("kill -9 $$", None, 9),
        ("sh -c 'kill -9 $PPID'; sleep 5", None, 9),
        ("echo out; exit 300", 44, None),
    ],
)
async def test_a_lost_shell_is_replaced(
    shell: Shell, command: str, exit_code: int | None, signal: int | None
) -> None:
    await shell.run("cd /tmp; export A='it'\"'\"'s\n two' B=; local_=1")
    ran = await shell.run(command, timeout_s=DEADLINE_S)
    assert (ran.exit_code, ran.signal, ran.restarted, ran.cwd) == (exit_code, signal, True, "/tmp"), ran
    assert "lost" in ran.note and ran.stderr == ""
    again = await shell.run('echo "$A|$B|$local_"; pwd')
    assert (again.stdout, again.restarted) == ("it's\n two|||\n/tmp\n".replace("|||", "||"), False)
    assert await works(shell)


async def test_ending_one_helper_never_ends_another(shell: Shell) -> None:
    """Each new shell ends its stdin holder while the next one starts."""
    for _ in range(150):
        assert (await shell.run("exit")).restarted
        assert (await shell.run("echo on")).stdout == "on\n"


@pytest.mark.parametrize("command", ["set -n", "exec 10>&- 11>&- 12>&-"])
async def test_a_shell_that_lost_its_tongue_is_replaced(shell: Shell, command: str) -> None:
    ran = await shell.run(command, timeout_s=DEADLINE_S)
    assert b"\0" not in ran.stderr_bytes
    assert not ran.timed_out
    assert await works(shell)


async def test_bash_functions_that_cannot_be_unset(workspace: Path) -> None:
    async with open_shell("test", workspace=workspace, shell="/bin/bash") as shell:
        ran = await shell.run(
            "printf() { :; }; command() { :; }; readonly -f printf command", timeout_s=DEADLINE_S
        )
        assert ran.restarted and "no longer reported" in ran.note
        assert await works(shell)


async def test_a_stopped_shell_is_woken(shell: Shell) -> None:
    ran = await shell.run("kill -STOP $$; echo on", timeout_s=DEADLINE_S)
    assert (ran.stdout, ran.timed_out) == ("on\n", False)


async def test_no_other_process_can_write_to_the_shell(shell: Shell) -> None:
    """Its commands and replies use a socket, which cannot be opened through /proc."""
    forge = (
        "for fd in /proc/$$/fd/*; do case $(readlink $fd) in socket:*) echo there;"
        " (echo 'echo forged' >$fd) 2>/dev/null && echo opened;; esac; done"
    )
    assert set((await shell.run(forge)).stdout.splitlines()) == {"there"}
    assert (await shell.run("echo mine")).stdout == "mine\n"
    assert await works(shell)


async def test_children_inherit_nothing_but_the_three(shell: Shell) -> None:
    ran = await shell.run("ls /proc/self/fd; exec 7>mine; echo kept >&7; cat mine")
    assert ran.stdout == "0\n1\n2\n3\nkept\n"  # 3 is the directory that ls reads
    assert await works(shell)


async def test_a_deleted_directory_and_one_with_a_newline(shell: Shell) -> None:
    ran = await shell.run("mkdir -p '/tmp/a\nb' /tmp/gone && cd '/tmp/a\nb'")
    assert ran.cwd == "/tmp/a\nb"
    await shell.run("exit")
    assert (await shell.run("pwd")).stdout == "/tmp/a\nb\n"
    ran = await shell.run("cd /tmp/gone && rmdir /tmp/gone")
    assert (ran.exit_code, ran.cwd) == (0, "/tmp/gone")
    assert await works(shell)
    await shell.run("exit")
    assert (await shell.run("pwd")).stdout == "/workspace\n"


async def test_nothing_remains_of_a_command_that_is_cancelled_while_its_input_is_made(shell: Shell) -> None:
    await shell.run("true")
    pipes, lenders = pipes_open(), lenders_alive(shell)
    for rounds in range(60):
        running = asyncio.ensure_future(shell.run("true", stdin=b"z"))
        await asyncio.sleep(rounds % 15 * 0.0003)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert await works(shell)
    async with asyncio.timeout(60):
        while pipes_open() > pipes or lenders_alive(shell) > lenders:  # noqa: ASYNC110 (there is no notification)
            await asyncio.sleep(0.02)


def pipes_open() -> int:
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(link).startswith("pipe:")  # noqa: PTH115 (what is open may be no path)
    return found


def lenders_alive(shell: Shell) -> int:
    found = 0
    for pid in below(shell.jail.warden_pid):
        with contextlib.suppress(OSError):
            found += b"2147483647" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return found


async def test_standard_input_and_environment_of_one_command(shell: Shell) -> None:
    ran = await shell.run("cat; echo $V; sh -c 'echo $V'", stdin=b"a\0b\n", env={"V": "it's"})
    assert ran.stdout_bytes == b"a\0b\nit's\nit's\n"
    assert (await shell.run("cat; echo $V")).stdout == "\n"
    ran = await shell.run("head -c 3", stdin=b"x" * 1_000_000)
    assert (ran.stdout, ran.exit_code) == ("xxx", 0)
    ran = await shell.run("wc -c", stdin=b"x" * 1_000_000)
    assert ran.stdout.strip() == "1000000"


async def test_binary_output_is_not_changed(shell: Shell) -> None:
    ran = await shell.run("printf '\\000\\377\\n\\001'; printf '\\376' >&2")
    assert (ran.stdout_bytes, ran.stderr_bytes) == (b"\0\xff\n\x01", b"\xfe")
    assert ran.stderr == "\N{REPLACEMENT CHARACTER}"


async def test_commands_that_no_shell_can_read_are_refused(shell: Shell) -> None:
    with pytest.raises(BadRequest, match="NUL"):
        await shell.run("echo \0")
    with pytest.raises(BadRequest, match="variable"):
        await shell.run("echo", env={"a b": "c"})
    with pytest.raises(BadRequest, match="timeout_s"):
        await shell.run("echo", timeout_s=0)
    assert await works(shell)


async def test_a_huge_command(shell: Shell) -> None:
    text = "x" * 1_000_000
    ran = await shell.run(f"v='{text}'; echo ${{#v}}", timeout_s=DEADLINE_S)
    assert ran.stdout == "1000000\n"
    assert await works(shell)


async def test_a_flood_of_output_is_capped_in_memory_and_saved_to_a_file(shell: Shell) -> None:
    ran = await shell.run("echo first; head -c 100000000 /dev/zero; echo last", timeout_s=DEADLINE_S)
    assert ran.truncated and ran.exit_code == 0
    assert len(ran.stdout_bytes) < 1.1 * AGENT.limits.output_bytes
    assert ran.stdout_bytes.startswith(b"first\n") and ran.stdout_bytes.endswith(b"\0last\n")
    assert ran.output_path is not None
    assert ran.output_path.stat().st_size == AGENT.limits.output_file_bytes
    assert await works(shell)


@pytest.mark.parametrize(
    "command",
    [
        "sleep 71",
        "while :; do :; done",
        "while :; do sleep 0.01; done",
        "setsid sleep 71 & sleep 71; sleep 71",
    ],
)
async def test_a_timeout_kills_the_command_and_keeps_the_shell(shell: Shell, command: str) -> None:
    await shell.run("v=1; sleep 171 &")
    await asyncio.sleep(0.05)
    for timeout_s in BEGINNINGS_S:
        ran = await shell.run(f"echo before; {command}; echo after", timeout_s=timeout_s)
        if ran.stdout:
            break
    assert (ran.timed_out, ran.stdout, ran.exit_code) == (True, "before\n", None), ran
    assert ran.limit_hit == LimitHit("command_timeout_s", f"{timeout_s:g} s")
    assert not ran.restarted
    ran = await shell.run("echo $v; pgrep -fx 'sleep 71' | wc -l; pgrep -fx 'sleep 171' | wc -l")
    assert ran.stdout.split() == ["1", "0", "1"]


async def test_a_timeout_ends_a_shell_that_ignores_it(shell: Shell) -> None:
    for timeout_s in BEGINNINGS_S:
        ran = await shell.run("trap '' INT TERM; echo set; while :; do sleep 0.01; done", timeout_s=timeout_s)
        if ran.stdout:
            break
    assert ran.timed_out and ran.restarted
    assert await works(shell)


async def test_cancelling_the_caller_ends_the_command(shell: Shell) -> None:
    await shell.run("v=1")
    task = asyncio.ensure_future(shell.run("sleep 72"))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ran = await shell.run("echo $v; pgrep -fx 'sleep 72'")
    assert ran.stdout == "1\n"


async def started(shell: Shell, words: str) -> None:
    """Wait until a program with these arguments runs, also while the shell has a command."""
    async with asyncio.timeout(DEADLINE_S):
        while not (await shell.jail.run(["pgrep", "-fx", words])).stdout:
            pass


async def test_interrupt_ends_the_command_and_nothing_else(shell: Shell) -> None:
    await shell.run("v=1; sleep 173 &")
    task = asyncio.ensure_future(shell.run("f() { while :; do sleep 73; done; }; f\necho no"))
    # An interrupt is lost on a shell that is about to start a program.
    for words in ("sleep 173", "sleep 73"):
        await started(shell, words)
    await shell.interrupt()
    ran = await asyncio.wait_for(task, DEADLINE_S)
    assert (ran.exit_code, ran.stdout, ran.restarted) == (130, "", False)
    assert (await shell.run("echo $v; pgrep -fx 'sleep 173' | wc -l")).stdout.split() == ["1", "1"]
    await shell.interrupt()
    assert await works(shell)


async def test_callers_queue_in_order_and_shells_run_in_parallel(workspace: Path) -> None:
    async with (
        open_shell("test", workspace=workspace) as one,
        open_shell("test") as same,
        open_shell("test", name="other") as other,
    ):
        assert one is same and other is not one and other.jail is one.jail
        meet = "touch {0}; until test -e {1}; do sleep 0.02; done; "  # neither could end alone
        await asyncio.gather(
            one.run(meet.format("here", "there") + "echo 0 >>order"),
            *(shell.run(f"sleep 0.1; echo {n} >>order") for n, shell in enumerate((same, one), 1)),
            other.run(meet.format("there", "here") + "x=1"),
        )
        assert (await one.run("cat order; echo $x")).stdout == "0\n1\n2\n\n"


async def test_a_caller_that_names_no_shell_gets_the_open_one(workspace: Path) -> None:
    async with (
        open_shell("test", workspace=str(workspace), shell="/bin/bash") as one,
        open_shell("test", workspace=workspace) as same,
        open_shell("test", name="other") as other,
    ):
        assert same is one
        assert (one.program, other.program) == ("/bin/bash", "/bin/sh")


async def test_arguments_of_the_wrong_type_are_refused(workspace: Path) -> None:
    wrong: Any = [(b"ls", None, "command is of type bytes"), ("cat", "text", "stdin is text. Give bytes")]
    async with open_shell("test", workspace=workspace) as shell:
        for command, stdin, message in wrong:
            with pytest.raises(BadRequest, match=message):
                await shell.run(command, stdin=stdin)
        assert (await shell.run("echo on")).stdout == "on\n"
    nowhere: Any = 5
    with pytest.raises(BadRequest, match="workspace is of type int"):
        async with open_shell("test", workspace=nowhere):
            pass


async def test_the_last_to_leave_closes_the_jail(workspace: Path) -> None:
    async with open_shell("test", workspace=workspace) as outer:
        async with open_shell("test") as inner:
            await inner.run("x=1")
        assert (await outer.run("echo $x")).stdout == "1\n"
    async with open_shell("test", workspace=workspace) as fresh:
        assert (await fresh.run("echo $x")).stdout == "\n"


async def test_the_same_id_means_the_same_jail(workspace: Path) -> None:
    async with open_shell("test", workspace=workspace):
        with pytest.raises(Conflict, match="is open on"):
            async with open_shell("test", workspace=workspace.parent):
                pass
        with pytest.raises(Conflict, match="/bin/sh"):
            async with open_shell("test", shell="/bin/bash"):
                pass


async def test_streaming_yields_the_output_as_it_arrives(shell: Shell, workspace: Path) -> None:
    chunks = []
    async for chunk in shell.stream("echo a; until test -e seen; do sleep 0.02; done; echo b >&2; (exit 4)"):
        chunks.append(chunk)
        (workspace / "seen").touch()
    assert [(c.stream, c.data) for c in chunks[:2]] == [("stdout", b"a\n"), ("stderr", b"b\n")]
    assert chunks[-1].result is not None and chunks[-1].result.exit_code == 4
    assert chunks[-1].stream == "result"
    assert await works(shell)


async def test_leaving_a_stream_ends_the_command(shell: Shell) -> None:
    stream = shell.stream("echo a; sleep 74")
    async for chunk in stream:
        assert chunk.data == b"a\n"
        break
    await stream.aclose()  # type: ignore[attr-defined]
    assert (await shell.run("pgrep -fx 'sleep 74'")).stdout == ""


async def test_a_slow_reader_of_a_stream_makes_the_command_wait(shell: Shell) -> None:
    total = 0
    async for chunk in shell.stream("head -c 20000000 /dev/zero", timeout_s=DEADLINE_S):
        total += len(chunk.data)
        if total < 1_000_000:
            await asyncio.sleep(0.05)
    assert total == 20_000_000


async def test_commands_are_reported_for_the_audit(workspace: Path) -> None:
    events: list[ShellEvent] = []
    async with open_shell("test", workspace=workspace, on_event=events.append) as shell:
        await shell.run("cd /tmp; false")
    started, ended = events
    assert started == CommandStarted("main", "cd /tmp; false", "/workspace")
    assert isinstance(ended, CommandEnded)
    assert (ended.command, ended.cwd, ended.exit_code) == ("cd /tmp; false", "/workspace", 1)


async def test_a_limit_that_was_hit_is_named(workspace: Path) -> None:
    policy = Policy(limits=Limits(workspace_growth_files=100))
    async with open_shell("test", workspace=workspace, policy=policy) as shell:
        ran = await shell.run("i=0; while :; do : >f$i; i=$((i+1)); done", timeout_s=120)
        assert ran.limit_hit is not None and ran.limit_hit.limit == "workspace_growth_files"
        assert (await shell.run("exit 153")).limit_hit is None  # any program can print that
        assert await works(shell)


@pytest.mark.serial
async def test_a_quick_write_past_a_limit_is_named() -> None:
    policy = Policy(limits=Limits(workspace_growth_bytes=20 * MIB))
    # Files that others remove from the same disk would hide the growth until the next walk.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as workspace:
        await _write_quickly(Path(workspace), policy)


async def _write_quickly(workspace: Path, policy: Policy) -> None:
    async with open_shell("test", workspace=workspace, policy=policy) as shell:
        ran = await shell.run("head -c 60000000 /dev/zero > big; true")
        assert ran.limit_hit == LimitHit("workspace_growth_bytes", "20 MiB")
        assert (await shell.run("echo on")).limit_hit is None


async def test_without_walls_it_is_the_same_shell(workspace: Path) -> None:
    async with open_shell("test", workspace=workspace, unsafe_no_jail=True) as shell:
        assert await works(shell)
        assert (await shell.run("pwd")).stdout == f"{workspace}\n"
        for timeout_s in BEGINNINGS_S:
            ran = await shell.run("v=1; echo set; sleep 75", timeout_s=timeout_s)
            if ran.stdout:
                break
        assert ran.timed_out and not ran.restarted
        assert (await shell.run("echo $v")).stdout == "1\n"


async def test_importing_the_package_is_cheap() -> None:
    code = "import sys, hutch.jail; assert 'asyncio' not in sys.modules; hutch.jail.open_shell"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("false", 1),
        ("(exit 3)", 3),
        ("f() { return 7; }; f", 7),
        ("if then", 2),
        ("set -e; ! true", 1),
        ("exit 3", 3),
        ("exec false", 1),
        ("exec no-such-program", 127),
        ("set -e; false", 1),
        ("kill -9 $$", 137),
        ("trap 'exit 6' EXIT; exit 4", 6),
    ],
)
async def test_a_command_sees_the_status_of_the_previous_one(shell: Shell, command: str, status: int) -> None:
    await shell.run(command)
    assert (await shell.run("echo $?")).stdout == f"{status}\n"
    assert (await shell.run("echo $?")).stdout == "0\n"


async def test_a_status_from_before_is_no_error_of_the_next_command(shell: Shell) -> None:
    await shell.run("set -e; trap 'echo trapped >&2' EXIT")
    await shell.run("! true")
    ran = await shell.run("echo $?")
    assert (ran.stdout, ran.stderr, ran.restarted) == ("1\n", "", False)


@pytest.mark.parametrize("command", ["exec sleep 85", "sleep 85 & exec sleep 85", "exec sh -c 'sleep 85; :'"])
@pytest.mark.parametrize("timeout_s", [0.1, 1])
async def test_a_command_that_replaced_the_shell_times_out_as_any_other(
    shell: Shell, command: str, timeout_s: float
) -> None:
    await shell.run("sleep 300 &")
    ran = await shell.run(command, timeout_s=timeout_s)
    assert (ran.timed_out, ran.exit_code, ran.signal) == (True, None, 9)
    assert ran.limit_hit == LimitHit("command_timeout_s", f"{timeout_s:g} s")
    assert ran.restarted and "The next command gets a new shell in /workspace" in ran.note
    assert (await shell.run("echo $?; pgrep -fx 'sleep 85'; pgrep -cfx 'sleep 300'")).stdout == "137\n1\n"


async def test_a_command_that_replaced_the_shell_ends_as_the_program_does(shell: Shell) -> None:
    ran = await shell.run("exec sh -c 'sleep 1; echo done; exit 9'", timeout_s=60)
    assert (ran.exit_code, ran.stdout, ran.restarted, ran.timed_out) == (9, "done\n", True, False)
    assert await works(shell)


@pytest.mark.long
async def test_a_shell_that_answers_slowly_is_not_lost(shell: Shell) -> None:
    """It has read the status query, and gets no processor time before it can answer."""
    await shell.run("trap 'sleep 1.5' DEBUG" if shell.program == "/bin/bash" else "true")
    ran = await shell.run("x=1", timeout_s=60)
    assert (ran.exit_code, ran.restarted) == (0, False)
    assert (
        await shell.run("trap - DEBUG; echo $x" if "bash" in shell.program else "echo $x")
    ).stdout == "1\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(("more", "cut"), [(0, False), (1, True), (500_000, True)])
async def test_a_result_says_that_it_was_cut(workspace: Path, stream: str, more: int, cut: bool) -> None:
    most = 100_000
    policy = Policy(limits=Limits(output_bytes=most))
    async with open_shell("cut", workspace=workspace, policy=policy) as shell:
        redirection = ">&2" if stream == "stderr" else ""
        ran = await shell.run(f"head -c {most + more} /dev/zero {redirection}")
    assert (ran.truncated, ran.output_path is not None) == (cut, cut)
    assert (b"omitted" in getattr(ran, f"{stream}_bytes")) == cut


NEW_SHELL = (
    "The next command gets a new shell in /workspace/sub, with the variables that were exported before this "
    "command. Other variables, functions, options, and a change of directory by this command are lost."
)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("exec sleep 85", "The command replaced the shell (exec) and was killed after 3 s."),
        (
            "trap 'x=1' INT TERM; while :; do sleep 0.1; done",
            "The shell did not return after its command was stopped; both were killed after 3 s.",
        ),
        ("exec true", "The command ended the shell (exit, exec or set -e), with exit code 0."),
        ("exec sh -c 'exit 4'", "The command ended the shell (exit, exec or set -e), with exit code 4."),
        ("exit 3", "The command ended the shell (exit, exec or set -e), with exit code 3."),
        ("set -e; false", "The command ended the shell (exit, exec or set -e), with exit code 1."),
        ("kill -9 $$", "The shell process was killed by signal 9."),
    ],
)
async def test_a_result_says_why_the_shell_ended_and_what_is_lost(
    shell: Shell, command: str, why: str
) -> None:
    await shell.run("mkdir sub; cd sub; export KEPT=1; lost=1")
    ran = await shell.run(f"cd /tmp; export KEPT=2; {command}", timeout_s=3)
    assert (ran.note, ran.restarted, ran.cwd) == (f"{why} {NEW_SHELL}", True, "/workspace/sub")
    after = await shell.run("pwd; echo $KEPT $lost")
    assert (after.stdout, after.note) == ("/workspace/sub\n1\n", "")


@pytest.mark.parametrize(
    "command", ["kill $$", "trap 'echo trapped' TERM; kill $$", "(exit 3)", "(exec true)"]
)
async def test_a_shell_that_continues_needs_no_note(shell: Shell, command: str) -> None:
    ran = await shell.run(f"cd /tmp; lost=1; {command}")
    assert (ran.note, ran.restarted, ran.cwd) == ("", False, "/tmp")
    assert (await shell.run("echo $lost")).stdout == "1\n"
