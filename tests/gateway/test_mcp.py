"""The MCP server by pipes: real jails, the official client, both generations of the protocol."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from hutch import settings
from hutch.app.workspaces import workspaces_of
from tests.forked_command import HUTCH, Forked, run
from tests.gateway.mcp_server import (
    LEGACY,
    MODERN,
    TIMEOUT_S,
    Place,
    by_pipes,
    eventually,
    long_time,
    runs,
    text_of,
)

pytestmark = pytest.mark.anyio

NAMES = [
    *("read_file", "write_file", "edit_file", "apply_patch", "list_directory", "glob", "grep"),
    *("search_code", "outline"),
    *("bash", "bash_output", "bash_kill", "exec", "run_tests"),
]
TESTED = {
    "adding.py": "def add(a, b):\n    return a - b\n",
    "test_adding.py": (
        "import unittest\n\nfrom adding import add\n\n\nclass Adding(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
    ),
}
PATCH = (
    "*** Begin Patch\n*** Update File: adding.py\n@@\n-    return a * b\n+    return a + b\n*** End Patch\n"
)
SECRET = "sk-ant-api03-9d8f7a6b5c4e3d2f1a0b9c8d7e6f5a4b"


HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n'
)
READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


def write(place: Place, files: dict[str, str]) -> None:
    for path, text in files.items():
        (place.work / path).write_text(text)


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    return await client.call_tool(tool, arguments)


async def done(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured content of a call that went well."""
    result = await call(client, tool, **arguments)
    assert not result.is_error, text_of(result)
    content: dict[str, Any] = result.structured_content
    return content


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_every_tool_does_its_work(place: Place, mode: str) -> None:
    write(place, TESTED)
    async with by_pipes(place, mode=mode, forked=False) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == NAMES
        assert {tool.name for tool in listed if tool.annotations and tool.annotations.read_only_hint} == {
            *("read_file", "list_directory", "glob", "grep", "bash_output"),
            *("search_code", "outline"),
        }
        for tool in listed:
            assert tool.title and tool.output_schema and tool.output_schema["type"] == "object", tool.name
        failing = await done(client, "run_tests")
        assert (failing["tests"]["ok"], failing["tests"]["failed"]) == (False, 1)
        assert (await done(client, "glob", pattern="*.py"))["total"] == 2
        assert (await done(client, "search_code", query="add"))["matches"][0]["symbol"] == "add"
        assert "1-2 function add" in (await done(client, "outline", path="adding.py"))["text"]
        found = await done(client, "grep", pattern="a - b")
        assert found["lines"] == [
            {"path": "adding.py", "line": 2, "text": "    return a - b", "matched": True}
        ]
        assert (await done(client, "read_file", path="adding.py", start_line=2, end_line=2))["text"] == (
            "    return a - b\n"
        )
        await done(client, "edit_file", path="adding.py", edits=[{"old": "a - b", "new": "a * b"}])
        await done(
            client,
            "apply_patch",
            patch=PATCH,
        )
        await done(client, "write_file", path="notes/new.txt", content="a note\n")
        assert (await done(client, "run_tests"))["tests"]["ok"] is True
        assert await done(client, "bash", command="cat notes/new.txt; echo oh >&2; cd notes; false") == {
            "exit_code": 1,
            "signal": None,
            "stdout": "a note\n",
            "stderr": "oh\n",
            "timed_out": False,
            "running": False,
            "id": None,
            "cwd": "/workspace/notes",
            "truncated": False,
            "output_path": None,
        }
        left = await done(client, "bash", command="echo begun; sleep 1000", yield_s=0.3)
        assert left["running"]
        assert (await done(client, "bash_output", id=left["id"]))["running"] is True
        assert (await done(client, "bash_kill", id=left["id"]))["running"] is False
        assert (await done(client, "bash_output", id=left["id"], wait_s=5))["running"] is False
    assert (place.work / "adding.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert (place.work / "notes/new.txt").read_text() == "a note\n"


async def test_one_shell_lasts_and_a_timeout_is_an_error(place: Place) -> None:
    async with by_pipes(place) as client:
        await done(client, "bash", command="mkdir below; cd below; export COLOUR=green; f() { echo from f; }")
        assert (await done(client, "bash", command="echo $COLOUR; f; pwd"))["stdout"] == (
            "green\nfrom f\n/workspace/below\n"
        )
        late = await call(client, "bash", command="sleep 1000", timeout_s=0.3)
        assert late.is_error
        assert late.structured_content["timed_out"] is True


async def test_an_invalid_call_is_explained(place: Place) -> None:
    write(place, {"a.txt": "one\ntwo\none\n"})
    async with by_pipes(place) as client:
        for tool, arguments, lesson in (
            ("read_file", {}, "read_file: `path` is missing. It takes {path: text, start_line?:"),
            ("read_file", {"path": 3}, "read_file: `path` is 3"),
            ("bash", {"cmd": "ls"}, "`command` is missing; `cmd` is unknown (did you mean `command`?)"),
            ("bash", {"command": "ls", "timeout_s": -1}, "`timeout_s` is -1"),
            ("edit_file", {"path": "a.txt", "edits": []}, "`edits` is []"),
            ("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "x"}]}, "a.txt"),
            ("edit_file", {"path": "a.txt", "edits": [{"old": "three", "new": "x"}]}, "was not changed"),
            ("apply_patch", {"patch": "nonsense"}, "*** Begin Patch"),
            ("read_file", {"path": "b.txt"}, "b.txt"),
            ("bash_output", {"id": "bg_77"}, "bg_77"),
            ("grep", {"pattern": "("}, "("),
            ("ask_user", {"question": "?"}, "There is no tool 'ask_user'."),
            ("reed_file", {"path": "a.txt"}, "Did you mean read_file?"),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error, tool
            assert lesson in text_of(result)
            assert "error" in result.structured_content
    assert (place.work / "a.txt").read_text() == "one\ntwo\none\n"


async def test_paths_lead_nowhere_else(place: Place) -> None:
    outside = place.root / "outside.txt"
    outside.write_text("private\n")
    (place.work / "link").symlink_to(outside)
    (place.work / "up").symlink_to("..")
    async with by_pipes(place) as client:
        for path in (
            "../outside.txt",
            str(outside),
            "link",
            "up/outside.txt",
            "/etc/passwd",
            "/workspace/../etc/passwd",
        ):
            for tool, arguments in (
                ("read_file", {"path": path}),
                ("write_file", {"path": path, "content": "taken\n"}),
                ("edit_file", {"path": path, "edits": [{"old": "private", "new": "taken"}]}),
                ("apply_patch", {"patch": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n"}),
            ):
                result = await client.call_tool(tool, arguments)
                assert result.is_error, (tool, path)
        assert (await call(client, "bash", command=f"cat {outside} link")).structured_content[
            "exit_code"
        ] == 1
        # Under the name that it has out here, the directory is still the same.
        inner = await done(client, "write_file", path=str(place.work / "in.txt"), content="x")
        assert inner["path"] == "in.txt"
    assert outside.read_text() == "private\n"


async def test_secrets_stay_here(place: Place) -> None:
    write(place, {"leak.txt": f"{SECRET}\n"})
    async with by_pipes(place, ANTHROPIC_API_KEY="a-key-of-no-known-shape") as client:
        shown = [
            await call(client, "bash", command="cat leak.txt; echo a-key-of-no-known-shape; env"),
            await call(client, "read_file", path="leak.txt"),
            await call(client, "grep", pattern="sk-ant"),
            await call(client, "read_file", path=["a-key-of-no-known-shape"]),
        ]
    for result in shown:
        whole = result.model_dump_json()
        assert SECRET not in whole
        assert "a-key-of-no-known-shape" not in whole
        assert "[redacted:" in whole
    logged = json.dumps(place.events())
    assert SECRET not in logged
    assert "a-key-of-no-known-shape" not in logged


async def test_calls_are_logged_and_snapshots_undo_them(place: Place) -> None:
    write(place, {"a.txt": "first\n"})
    async with by_pipes(place) as client:
        await done(client, "edit_file", path="a.txt", edits=[{"old": "first", "new": "second"}])
        await done(client, "bash", command="echo third > a.txt; echo new > b.txt")
    assert sorted(path.name for path in place.work.iterdir()) == ["a.txt", "b.txt"]
    assert [event["type"] for event in place.events()] == [
        "session.opened",
        "tool.called",
        "file.changed",
        "snapshot.taken",
        "tool.returned",
        "tool.called",
        "command.started",
        "command.ended",
        "file.changed",
        "file.changed",
        "snapshot.taken",
        "tool.returned",
        "session.ended",
    ]
    changed = [event for event in place.events() if event["type"] == "file.changed"]
    assert [(event["path"], event["by"], event["cause"], event["call_id"]) for event in changed] == [
        ("a.txt", "agent", "tool", "call_1"),
        ("a.txt", "agent", "tool", "call_2"),
        ("b.txt", "agent", "tool", "call_2"),
    ]
    loaded = settings.load(environ=place.environment())
    async with workspaces_of(loaded).open_directory(place.work) as workspace:
        first, second, _ = await workspace.list_snapshots()
        await workspace.restore(second.id)
        assert (place.work / "a.txt").read_text() == "second\n"
        await workspace.restore(first.id)
    assert {path.name: path.read_text() for path in place.work.iterdir()} == {"a.txt": "first\n"}


async def test_changes_by_users_meanwhile_can_be_restored(place: Place) -> None:
    async with by_pipes(place) as client:
        await done(client, "bash", command="true")
        write(place, {"by_hand.txt": "precious\n"})
        late = "(until test -e go; do sleep 0.05; done; echo late > late.txt) &"
        await done(client, "bash", command=f"rm by_hand.txt; {late}")
        write(place, {"go": ""})
        await asyncio.to_thread(eventually, (place.work / "late.txt").exists)
    loaded = settings.load(environ=place.environment())
    async with workspaces_of(loaded).open_directory(place.work) as workspace:
        reasons = {each.reason: each.id for each in await workspace.list_snapshots()}
        await workspace.restore(reasons["before bash"], "by_hand.txt")
        assert "after the last call" in reasons
    assert (place.work / "by_hand.txt").read_text() == "precious\n"


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_a_cancelled_call_ends_its_command(place: Place, mode: str) -> None:
    seconds = long_time()
    async with by_pipes(place, mode=mode) as client:
        calling = asyncio.create_task(
            call(client, "bash", command=f"sleep {seconds} & sleep {seconds}", timeout_s=500)
        )
        await asyncio.to_thread(eventually, lambda: runs(seconds))
        calling.cancel()
        await asyncio.to_thread(eventually, lambda: not runs(seconds))
        assert (await done(client, "bash", command="echo still here"))["stdout"] == "still here\n"
    returned = [event for event in place.events() if event["type"] == "tool.returned"]
    assert [event["ok"] for event in returned] == [False, True]
    assert "cancelled" in returned[0]["text"]


async def test_names_that_are_not_utf8_are_listed(place: Place) -> None:
    (place.work / os.fsdecode(b"\xff\xfe.txt")).write_text("odd\n")
    async with by_pipes(place) as client:
        assert "odd" in text_of(await call(client, "grep", pattern="odd"))
        [name] = (await done(client, "glob", pattern="*"))["paths"]
        assert name == r"\xff\xfe.txt"
        assert (await done(client, "read_file", path=name))["text"] == "odd\n"
        await done(client, "write_file", path=name, content="even\n")
    assert (place.work / os.fsdecode(b"\xff\xfe.txt")).read_text() == "even\n"
    assert [event["path"] for event in place.events() if event["type"] == "file.changed"] == [
        "\ufffd\ufffd.txt"
    ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_ended_leaves_nothing(place: Place, number: signal.Signals) -> None:
    seconds = long_time()
    with raw(place) as server:
        ask(server, "bash", {"command": f"sleep {seconds}", "timeout_s": 500})
        eventually(lambda: runs(seconds))
        server.send_signal(number)  # with both pipes still open
        server.wait(TIMEOUT_S)
        assert server.returncode == (-number if number == signal.SIGKILL else 128 + number)
        eventually(lambda: not runs(seconds))
        eventually(lambda: not runs(str(place.work)))


def test_calls_are_answered_after_the_client_has_closed_its_input(place: Place) -> None:
    with raw(place) as server:
        ask(server, "bash", {"command": "true"})  # starts the jail, which may take longer than a server waits
        assert server.stdout is not None and server.stdout.readline()
        ask(server, "bash", {"command": "echo hello"}, number=2)
        printed, _ = server.communicate(timeout=TIMEOUT_S)
    assert server.returncode == 0
    assert json.loads(printed)["result"]["structuredContent"]["stdout"] == "hello\n"


def test_only_the_protocol_goes_to_standard_output(place: Place) -> None:
    with raw(place, HUTCH_LOG__LEVEL="debug") as server:
        assert server.stdin is not None
        server.stdin.write(b'this is no JSON\n\n{"jsonrpc": "2.0"}\n[]\n\xff\xfe\n')
        ask(server, "bash", {"command": "echo from the jail; echo and more >&2"})
        ask(server, "no_such_tool", {}, number=2)
        printed, _ = server.communicate(timeout=TIMEOUT_S)
    answers = [json.loads(line) for line in printed.splitlines()]
    assert {answer["jsonrpc"] for answer in answers} == {"2.0"}
    assert {answer.get("id") for answer in answers} >= {1, 2}


def test_a_message_that_cannot_be_read_is_answered(place: Place) -> None:
    begin, end = (
        b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"bash","arguments":',
        b"}}\n",
    )
    last = b'{"method":"tools/call","params":{"arguments":{"command":"%s"}},"jsonrpc":"2.0","id":7}\n'
    lines = {
        "digits": begin + b'{"command":"ls","timeout_s":' + b"9" * 5000 + b"}" + end,
        "surrogate": begin + rb'{"command":"\ud800"}' + end,
        "deep": begin + b"[" * 1000 + b"]" * 1000 + end,
        "deeper": begin + b"[" * 100_000 + b"]" * 100_000 + end,
        "no UTF-8": begin + b'{"command":"\xff"}' + end,
        "NUL": begin + b'{"command":"\0"}' + end,
        "long": begin + b'{"command":"' + b"x" * 17_000_000 + b'"}' + end,
        "long, with its id at the end": last % (b"x" * 17_000_000),
        "no JSON": b"hello\n",
        "a list": b"[]\n",
        "no number": b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n',
    }
    ids = dict.fromkeys(lines, "a") | {"long, with its id at the end": 7}
    ids |= dict.fromkeys(("no JSON", "a list", "no number"))
    codes = dict.fromkeys(lines, -32600) | dict.fromkeys(("no UTF-8", "no JSON"), -32700)
    with raw(place) as server:
        assert server.stdin is not None and server.stdout is not None
        for name, line in lines.items():
            server.stdin.write(line)
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            assert (name, answer["id"], answer["error"]["code"]) == (name, ids[name], codes[name])
        server.stdin.write(
            b'{"jsonrpc":"2.0","method":"\xff"}\n{"jsonrpc":"2.0","id":4,"result":"\\ud800"}\n'
        )
        ask(server, "bash", {"command": "echo still here"}, number=5)
        assert json.loads(server.stdout.readline())["id"] is None  # what is no text may be a question
        assert json.loads(server.stdout.readline())["id"] == 5


async def test_the_next_server_waits_for_the_one_before(place: Place) -> None:
    seconds = long_time()
    with raw(place) as before:
        ask(before, "bash", {"command": f"sleep {seconds}", "timeout_s": 500})
        await asyncio.to_thread(eventually, lambda: runs(seconds))

        async def next_one() -> str:
            async with by_pipes(place) as client:
                return (await done(client, "bash", command="echo mine now"))["stdout"]

        waiting = asyncio.create_task(next_one())
        await asyncio.sleep(0.5)
        before.terminate()
        assert await waiting == "mine now\n"


async def test_two_clients_work_on_one_directory(place: Place) -> None:
    async with by_pipes(place, mode=LEGACY) as one, by_pipes(place) as two:
        assert (await done(one, "bash", command="echo one > a; echo $((1 + 1))"))["stdout"] == "2\n"
        assert (await done(two, "bash", command="cat a"))["stdout"] == "one\n"
        await done(two, "edit_file", path="a", edits=[{"old": "one", "new": "two"}])
        assert (await done(one, "read_file", path="a"))["text"] == "two\n"
        await asyncio.gather(*(done(each, "bash", command="sleep 0.2; ls") for each in (one, two)))
    assert (place.work / "a").read_text() == "two\n"
    assert len(place.hutch("log", "--json").splitlines()) == 2


def serve_on(place: Place, directory: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return run(
        [*place.argv()[:3], "-w", str(directory), *options],
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_a_directory_that_is_not_there_or_not_to_be_worked_on(place: Place) -> None:
    refused = (
        (place.work / "no", 2, "does not exist"),
        (Path("/etc"), 4, "of the system"),
        (Path("/"), 4, "contains"),
    )
    for directory, code, said in refused:
        done_ = serve_on(place, directory, "--plain-directory")
        assert (done_.returncode, done_.stdout) == (code, "")
        assert said in done_.stderr
    shell = [HUTCH, "shell", "-w", "/", "--", "true"]
    ran = run(shell, env=place.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (done_.returncode, done_.stderr)


def test_a_refused_start_is_the_answer_to_a_clients_first_request(place: Place) -> None:
    for host, said in (("http://bad host", "is a URL"), ("10.0.0.1", "that jails may not reach")):
        argv = [*place.argv(), "--net", host]
        ran = run(argv, env=place.environment(), input=HELLO, capture_output=True, timeout=TIMEOUT_S)
        answer = json.loads(ran.stdout)
        assert (ran.returncode, answer["id"]) == (2, 1) and "result" not in answer
        assert said in answer["error"]["message"] and said.encode() in ran.stderr


def test_a_start_that_fails_later_is_the_answer_to_the_next_request(place: Place) -> None:
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "bash", "arguments": {}}}
    asked = HELLO + READY + json.dumps(call).encode() + b"\n"
    environment = {**place.environment(), "HUTCH_HOME": "/proc/no-home"}
    ran = run(place.argv(), env=environment, input=asked, capture_output=True, timeout=TIMEOUT_S)
    answers = {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines())}
    assert ran.returncode != 0 and "result" in answers[1]
    assert answers[2]["error"]["message"].startswith("Hutch cannot start: ")


def test_a_client_that_only_lists_the_tools_opens_no_session(place: Place) -> None:
    listing = b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n'
    argv, environment = place.argv(), place.environment()
    ran = run(argv, env=environment, input=HELLO + READY + listing, capture_output=True, timeout=TIMEOUT_S)
    assert [json.loads(line)["id"] for line in ran.stdout.splitlines()] == [1, 2], ran.stderr
    logged = run([HUTCH, "log", "--json"], env=environment, capture_output=True, timeout=TIMEOUT_S)
    assert (ran.returncode, logged.stdout) == (0, b"")


def test_a_directory_without_git_is_served_only_on_request(place: Place) -> None:
    (place.work / ".env").write_text("TOKEN=1")
    done_ = serve_on(place, place.work)
    assert (done_.returncode, done_.stdout) == (2, "")
    assert "names typical of secrets: .env" in done_.stderr and "--plain-directory" in done_.stderr
    assert serve_on(place, place.work, "--plain-directory").returncode == 0
    (place.work / ".git").mkdir()
    assert serve_on(place, place.work).returncode == 2  # a name alone makes no repository
    subprocess.run(["git", "init", "--quiet", str(place.work)], check=True)
    assert serve_on(place, place.work).returncode == 0
    (place.work / "below").mkdir()
    assert serve_on(place, place.work / "below").returncode == 0, "it is in a repository"


def test_help_does_not_wait_for_the_library() -> None:
    for args in (["--help"], ["mcp", "--help"], ["mcp", "serve", "--help"]):
        program = f"import sys; from hutch.cli.main import run; run({args!r}); sys.exit('mcp' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def raw(place: Place, **more: str) -> "subprocess.Popen[bytes]":
    pipe = subprocess.PIPE
    return Forked(
        place.argv(), env=place.environment(**more), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    )


def ask(server: "subprocess.Popen[bytes]", tool: str, arguments: dict[str, Any], number: int = 1) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    assert server.stdin is not None
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()


async def test_structured_content_has_only_described_fields(place: Place) -> None:
    write(place, {**TESTED, "a.txt": "one\n"})
    (place.work / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "a.png"}),
        ("write_file", {"path": "b.py", "content": "("}),
        ("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: c\n+c\n*** End Patch\n"}),
        ("list_directory", {}),
        ("glob", {"pattern": "*"}),
        ("grep", {"pattern": "two"}),
        ("grep", {"pattern": "two", "output": "count"}),
        ("grep", {"pattern": "two", "output": "files"}),
        ("bash", {"command": "sleep 100", "yield_s": 0}),
        ("bash_output", {"id": "bg_1"}),
        ("bash_kill", {"id": "bg_1"}),
        ("exec", {"argv": ["echo", "x"]}),
        ("run_tests", {}),
    ]
    async with by_pipes(place) as client:
        schemas = {tool.name: tool.output_schema or {} for tool in (await client.list_tools()).tools}
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)  # the client checks it against the schema
            content = dict(result.structured_content or {})
            assert not result.is_error, (name, content)
            assert set(content) <= set(schemas[name]["properties"]), name
            assert set(schemas[name]["required"]) <= set(content), name
            if arguments == {"path": "a.png"}:
                assert [each.type for each in result.content] == ["text", "image"]
