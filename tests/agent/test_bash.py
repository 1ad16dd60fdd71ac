"""Commands in one shell: their results for the model, and background commands."""

from dataclasses import replace
from pathlib import Path

import pytest

from hutch.agent.tools.bash import SHOWN_CHARS
from hutch.domain.redaction import Redactor
from hutch.jail.policy import AGENT
from tests.agent.run_setups import open_tool_env
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio


async def test_the_shell_keeps_its_directory_and_variables(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"sub/a": b""}) as env:
        await env.use("bash", command="cd sub; x=3; f() { echo f$1; }")
        result = await env.use("bash", command="pwd; f $x; echo oops >&2; (exit 3)")
    assert (result.text, result.ok) == ("/workspace/sub\nf3\n[stderr]\noops\n[Exit code 3.]", True)
    assert result.data == {
        "signal": None,
        "exit_code": 3,
        "stdout": "/workspace/sub\nf3\n",
        "stderr": "oops\n",
        "timed_out": False,
        "running": False,
        "id": None,
        "cwd": "/workspace/sub",
        "truncated": False,
        "output_path": None,
    }


@pytest.mark.parametrize("command", ["", "  \n\t", "# only a remark", "true"])
async def test_nothing_to_run_is_a_success(tmp_path: Path, command: str) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        result = await env.use("bash", command=command)
    assert result.ok and result.data["exit_code"] == 0
    assert result.text in ("(nothing to run)", "(no output)")


async def test_terminal_escapes_are_removed(tmp_path: Path) -> None:
    command = r"""printf '\033[1;31mred\033[0m \033]0;title\007\033]8;;http://x\033\\link\033]8;;\033\\ '
printf '10%%\r50%%\r100%%\n\033(Bbell\007\b\x9b31m\x7f \033Pq#0\033\\end\r\n'"""
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        result = await env.use("bash", command=command)
    assert result.text == "100%\nbell\ufffd31m end"
    assert "\x1b" not in result.data["stdout"]


async def test_long_output_is_shown_by_both_ends_and_saved_to_a_file(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        result = await env.use("bash", command="echo first; seq 100000; echo last >&2")
        assert len(result.text) < SHOWN_CHARS + 300
        assert result.data["truncated"]
        assert result.text.startswith("first\n1\n2\n") and result.text.endswith("\n100000\n[stderr]\nlast")
        assert "characters omitted; all of it is in /tmp/hutch-output-1.txt" in result.text
        again = await env.use("bash", command="f=/tmp/hutch-output-1.txt; sed -n 50001p $f; wc -l < $f")
        # A trap in the place of the next one is not followed.
        await env.use("bash", command="ln -s /workspace/a /tmp/hutch-output-2.txt; echo x > a")
        await env.use("bash", command="seq 100000")
        replaced = await env.use("bash", command="cat a; test -L /tmp/hutch-output-2.txt || echo replaced")
    assert again.text == "50000\n100002"
    assert replaced.text == "x\nreplaced"


@pytest.mark.parametrize("stream", ["", " >&2"])
async def test_no_half_of_a_secret_is_left_where_output_is_cut(tmp_path: Path, stream: str) -> None:
    key = "sk-ant-" + "K3y" * 20
    half = SHOWN_CHARS // 2
    # The cut goes through the key: of the head, and of the tail.
    command = (
        f"(head -c {half - 10} /dev/zero | tr '\\0' .; printf {key}; head -c 50000 /dev/zero | tr '\\0' .; "
        f"printf {key}; head -c {half - 10} /dev/zero | tr '\\0' .){stream}"
    )
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        env.redact(Redactor())
        result = await env.use("bash", command=command)
        waiting = f"until test -e go; do sleep 0.05; done; {command}"  # so that all of it is printed later
        started = await env.use("bash", command=waiting, yield_s=0)
        await env.use("write_file", path="go", content="")
        later = await env.use("bash_output", id=started.data["id"], wait_s=60)
        file = await env.use("bash", command="head -c 5100 /tmp/hutch-output-1.txt")
    for each in (result, later, file):
        shown = f"{each.text} {each.data}"
        assert "K3y" not in shown and "sk-ant" not in shown and "[redacted" in shown


async def test_no_half_of_a_secret_is_left_where_the_jail_cuts(tmp_path: Path) -> None:
    key = "sk-ant-" + "K3y" * 20
    small = replace(AGENT, limits=replace(AGENT.limits, output_bytes=400))
    command = f"printf 'head %0180d {key}' 1; seq -s ' ' 3000; printf '{key} %0180d tail' 2"
    async with open_tool_env(tmp_path, {"a": b""}, policy=small) as env:
        env.redact(Redactor())
        result = await env.use("bash", command=command)
    assert result.data["truncated"] and "bytes omitted" in result.text
    shown = f"{result.text} {result.data}"
    assert "head" in shown and "tail" in shown and "K3y" not in shown and "sk-ant" not in shown


async def test_the_rest_of_a_secret_is_not_shown_by_the_next_read(tmp_path: Path) -> None:
    key = "sk-ant-" + "K3y" * 20
    command = f"printf 'one {key[:7]}'; until test -e go; do sleep 0.05; done; printf '{key[7:]} two\\n'"
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        env.redact(Redactor())
        began = (await env.use("bash", command=command, yield_s=0)).data
        id_, seen = began["id"], began["stdout"]  # on a busy machine, some of it may be printed already
        while "one" not in seen:
            seen += (await env.use("bash_output", id=id_, wait_s=0.1)).data["output"]
        await env.use("write_file", path="go", content="")
        result = await env.use("bash_output", id=id_, wait_s=60)
    assert "sk-ant" not in seen
    assert result.data["output"] == "[redacted:anthropic_key] two"


async def test_a_long_command_continues_in_the_background_and_can_be_read_and_killed(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        result = await env.use("bash", command="echo one; read x < fifo; sleep 600", yield_s=0)
        id_ = result.data["id"]
        assert result.data["running"] and f"in the background as {id_}" in result.text
        first = await env.use("bash_output", id=id_, wait_s=0)
        assert first.data["running"] and "[still running" in first.text
        ended = await env.use("bash_kill", id=id_)
        assert (ended.text, ended.ok) == (f"{id_} was killed.", True)
        last = await env.use("bash_output", id=id_)
        assert "ended by signal KILL" in last.text and not last.data["running"]
        again = await env.use("bash_kill", id=id_)
        assert again.text == f"{id_} has already ended."
        free = await env.use("bash", command="echo free")
    assert free.text == "free"


async def test_output_in_the_background_comes_once_and_with_the_exit_code(tmp_path: Path) -> None:
    command = "echo one; until test -e go; do sleep 0.05; done; printf '\\033[1mtwo\\033[0m\\n'; (exit 4)"
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        began = (await env.use("bash", command=command, yield_s=0)).data
        id_, seen = began["id"], began["stdout"]  # on a busy machine, some of it may be printed already
        while "one" not in seen:
            seen += (await env.use("bash_output", id=id_, wait_s=0.1)).data["output"]
        await env.use("write_file", path="go", content="")
        result = await env.use("bash_output", id=id_, wait_s=60)
        empty = await env.use("bash_output", id=id_)
    assert (seen.strip(), result.text) == ("one", "two\n[ended with exit code 4]")
    assert empty.text == "[ended with exit code 4, nothing new]"


async def test_a_signal_reaches_a_background_command(tmp_path: Path) -> None:
    command = "trap 'echo terminated; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        began = (await env.use("bash", command=command, yield_s=0)).data
        id_, seen = began["id"], began["stdout"]  # on a busy machine, some of it may be printed already
        while "ready" not in seen:
            seen += (await env.use("bash_output", id=id_, wait_s=0.1)).data["output"]
        sent = await env.use("bash_kill", id=id_, signal="TERM")
        result = await env.use("bash_output", id=id_, wait_s=60)
    assert sent.text.startswith(f"TERM was sent to {id_}, which ")
    assert not result.data["running"]


async def test_a_signal_ends_a_loop_without_terminal_messages(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        command = "echo begun; sleep 100 & while true; do sleep 1; done"
        id_ = (await env.use("bash", command=command, yield_s=0.5)).data["id"]
        await env.use("bash_kill", id=id_, signal="TERM")
        ended = await env.use("bash_output", id=id_, wait_s=60)
        left = await env.use("bash", command="pgrep -x sleep || echo none")
    assert (ended.data["running"], "ended by signal TERM" in ended.text) == (False, True)
    assert "tcsetattr" not in ended.text and "[1]" not in ended.text
    assert left.text.startswith("none")


async def test_output_is_returned_only_once(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        command = "echo one; until test -e go; do sleep 0.05; done; echo two"
        first = await env.use("bash", command=command, yield_s=2)
        none = await env.use("bash_output", id=first.data["id"])
        await env.use("write_file", path="go", content="")
        rest = await env.use("bash_output", id=first.data["id"], wait_s=60)
    assert first.text.startswith("one\n[It continues")
    assert (none.data["output"], rest.data["output"]) == ("", "two")


async def test_lost_background_output_is_reported(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        id_ = (await env.use("bash", command="head -c 3000000 /dev/zero | tr '\\0' x", yield_s=0)).data["id"]
        await env.context.shells.background.get(id_).wait(60)
        result = await env.use("bash_output", id=id_)
    assert result.data["truncated"] and "earlier bytes are no longer available" in result.text


async def test_an_unknown_id_is_refused(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        for tool in ("bash_output", "bash_kill"):
            result = await env.use(tool, id="bg_99")
            assert not result.ok and "bg_99" in result.text


async def test_a_command_over_its_timeout_is_killed_with_a_note(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        await env.use("bash", command="true")  # so that the time does not count in which a shell starts
        result = await env.use("bash", command="echo begun; sleep 600", timeout_s=3)
        after = await env.use("bash", command="pgrep -x sleep || echo none")
    assert not result.ok and result.data["timed_out"]
    assert result.text.startswith("begun\n[It took too long and was killed. Give a larger timeout_s")
    assert after.text.startswith("none")


# A busy machine needs some of this time until the command has printed.
SILENT = replace(AGENT, limits=replace(AGENT.limits, command_timeout_s=3))


async def test_a_silent_command_is_killed_after_the_timeout_of_the_settings(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}, policy=SILENT) as env:
        result = await env.use("bash", command="echo begun; sleep 600")
        after = await env.use("bash", command="pgrep -x sleep || echo none")
    assert not result.ok and result.data["timed_out"]
    assert result.text == (
        "begun\n[It was killed after 3 s without output (the setting jail.command_timeout_s). "
        "Give a timeout_s, or start a server with &.]"
    )
    assert after.text.startswith("none")


async def test_at_the_limit_of_all_commands_no_larger_timeout_is_advised(tmp_path: Path) -> None:
    policy = replace(AGENT, limits=replace(AGENT.limits, command_total_s=1))
    async with open_tool_env(tmp_path, {"a": b""}, policy=policy) as env:
        results = [
            await env.use("bash", command="sleep 600", timeout_s=300),
            await env.use("exec", argv=["sleep", "600"], timeout_s=300),
        ]
    for result in results:
        assert "1 s, the most that any command may take (jail.command_total_s)" in result.text
        assert "Give a larger timeout_s" not in result.text


async def test_a_silent_command_in_the_background_is_killed_too(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}, policy=SILENT) as env:
        started = await env.use("bash", command="sleep 600", yield_s=0)
        ended = await env.use("bash_output", id=started.data["id"], wait_s=DEADLINE_S)
    assert ended.data["timed_out"]
    assert "killed after 3 s without output (the setting jail.command_timeout_s)" in ended.text


@pytest.mark.long
async def test_output_and_a_timeout_of_its_own_keep_a_command_alive(tmp_path: Path) -> None:
    policy = replace(AGENT, limits=replace(AGENT.limits, command_timeout_s=4))
    async with open_tool_env(tmp_path, {"a": b""}, policy=policy) as env:
        server = await env.use("bash", command="sleep 600 &")
        printing = await env.use("bash", command="for i in $(seq 10); do echo $i; sleep 0.5; done")
        waiting = await env.use("bash", command="sleep 5; echo done", timeout_s=DEADLINE_S)
        still = await env.use("bash", command="pgrep -fx 'sleep 600'")
    assert (printing.ok, printing.data["exit_code"], printing.text.splitlines()[-1]) == (True, 0, "10")
    assert (waiting.ok, waiting.text) == (True, "done")
    assert server.ok and still.data["exit_code"] == 0


async def test_a_command_cannot_leave(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        result = await env.use("bash", command=f"cat {secret}; cat /etc/shadow; echo x > /etc/x")
    assert "hidden" not in result.text and result.data["exit_code"] != 0


@pytest.mark.parametrize(
    ("rest", "shown"),
    [("E93kxl two", "[redacted:secret] two"), ("less two", "Zq7-KvRwtless two"), ("", "Zq7-KvRwt")],
)
async def test_half_a_secret_is_held_back_while_its_command_runs(
    tmp_path: Path, rest: str, shown: str
) -> None:
    redactor = Redactor(["Zq7-KvRwtE93kxl"])
    command = f"printf 'one Zq7-KvRwt'; until test -e go; do sleep 0.05; done; printf '{rest}'"
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        env.redact(redactor)
        started = await env.use("bash", command=command, yield_s=0.5)
        seen = [started.data["stdout"], (await env.use("bash_output", id=started.data["id"])).data["output"]]
        await env.use("write_file", path="go", content="")
        seen.append((await env.use("bash_output", id=started.data["id"], wait_s=60)).data["output"])
    assert "Zq7" not in "".join(seen[:2])
    assert "".join(seen) == f"one {shown}"


async def test_no_part_of_a_flood_of_a_secret_is_shown_where_it_is_cut(tmp_path: Path) -> None:
    value = "Zq7-KvRwtE93kxlPmw0TtRest-of-it-which-is-longer"
    small = replace(AGENT, limits=replace(AGENT.limits, output_bytes=9000))
    redactor = Redactor([value])
    async with open_tool_env(tmp_path, {"a": b""}, policy=small) as env:
        env.redact(redactor)
        for before in range(0, len(value), 5):
            command = f"printf '%0{before + 1}d' 0; for i in $(seq 3000); do printf %s {value}; done"
            result = await env.use("bash", command=command)
            assert "bytes omitted" in result.text and result.data["truncated"]
            shown = f"{result.text} {result.data['stdout']}"
            assert not any(value[at : at + 4] in shown for at in range(len(value) - 3)), before


async def test_a_command_that_survives_a_signal_is_reported_with_a_hint(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        command = "trap 'true' TERM; touch ready; while :; do sleep 0.1; done"
        id_ = (await env.use("bash", command=command, yield_s=0)).data["id"]
        await env.use("bash", command="until test -e ready; do sleep 0.05; done")
        sent = await env.use("bash_kill", id=id_, signal="TERM")
        assert sent.text == f"TERM was sent to {id_}, which still runs; use KILL to end it."
        assert sent.data == {"id": id_, "running": True}
        ended = await env.use("bash_kill", id=id_, signal="KILL")
        assert (ended.text, ended.data["running"]) == (f"{id_} was killed.", False)


async def test_the_processes_that_a_command_left_are_ended_by_its_id(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        left = await env.use("bash", command="sleep 300 & echo $!")
        id_, pid = left.data["id"], left.data["stdout"].strip()
        assert f"by a signal to {id_}" in left.text
        sent = await env.use("bash_kill", id=id_, signal="TERM")
        assert sent.text == f"TERM was sent to the processes that {id_} left running."
        gone = await env.use(
            "bash", command=f"while kill -0 {pid} 2>/dev/null; do sleep 0.05; done; echo gone"
        )
        assert gone.data["stdout"] == "gone\n"
        assert (await env.use("bash_kill", id=id_)).text == f"{id_} has already ended."


async def test_processes_that_a_command_left_without_output_are_ended_by_its_id(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        start = '(sleep {} >/dev/null 2>&1 & until test "$(readlink /proc/$!/fd/2)" = /dev/null; do :; done)'
        await env.use("bash", command=start.format(301))
        left = await env.use("bash", command=start.format(302))
        id_ = left.data["id"]
        assert (
            f"Processes that it started still run. End them with kill, or by a signal to {id_}." in left.text
        )
        await env.use("bash_kill", id=id_)
        seen = "until ! pgrep -f 'sleep 30[2]'; do sleep 0.05; done; pgrep -cf 'sleep 30[1]'"
        assert (await env.use("bash", command=seen)).data["stdout"].splitlines()[-1] == "1"
        assert (await env.use("bash_kill", id=id_)).text == f"{id_} has already ended."
        brief = await env.use("bash", command="true")
        assert brief.data["id"] is None


async def test_standard_error_is_marked_also_when_it_is_alone(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        alone = await env.use("bash", command="echo oops >&2")
        without = await env.use("bash", command="echo fine")
    assert (alone.text, without.text) == ("[stderr]\noops", "fine")


async def test_half_a_character_or_escape_is_not_repeated_by_the_next_read(tmp_path: Path) -> None:
    steps = ["printf 'a long line: caf\\303'", "printf '\\251 and \\033[3'", "printf '1mred\\n'"]
    wait = "; until test -e go{}; do sleep 0.02; done; "
    command = "".join(f"{step}{wait.format(number)}" for number, step in enumerate(steps)) + "true"
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        began = (await env.use("bash", command=command, yield_s=0)).data
        seen = [began["stdout"]]
        for number, end in enumerate(("caf", "and ", "red")):
            while end not in "".join(seen):
                seen.append((await env.use("bash_output", id=began["id"], wait_s=0.1)).data["output"])
            await env.use("write_file", path=f"go{number}", content="")
    assert "".join(seen).strip() == "a long line: café and red"


async def test_a_line_that_was_overwritten_is_shown_as_it_is_now(tmp_path: Path) -> None:
    command = "printf 'done: 10%%'; until test -e go; do sleep 0.02; done; printf '\\rdone: 20%%\\n'"
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        began = (await env.use("bash", command=command, yield_s=0)).data
        seen = began["stdout"]
        while "10%" not in seen:
            seen += (await env.use("bash_output", id=began["id"], wait_s=0.1)).data["output"]
        await env.use("write_file", path="go", content="")
        rest = await env.use("bash_output", id=began["id"], wait_s=60)
    assert rest.data["output"] == "done: 20%"


@pytest.mark.parametrize(
    "command",
    [
        "while true; do sleep 1; done",
        "while true; do :; done",
        "f() { until false; do sleep 0.01 | cat; done; }; f",
        "while true; do (trap '' TERM; sleep 0.2); done",
        "trap '' TERM; while true; do sleep 0.2; done",
    ],
)
async def test_term_ends_a_loop_and_not_only_its_current_child(tmp_path: Path, command: str) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        id_ = (await env.use("bash", command=command, yield_s=0)).data["id"]
        await env.use("bash_kill", id=id_, signal="sigterm")
        ended = await env.use("bash_output", id=id_, wait_s=60)
    assert not ended.data["running"]
