"""MCP at the server's own /mcp: the official client, both generations of the protocol."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from hutch.flows.user_accounts import LOCAL, Accounts
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.gateway.mcp_server import LEGACY, MODERN, TIMEOUT_S, text_of

pytestmark = pytest.mark.anyio

NAMES = [
    *("list_sessions", "create_session", "send_prompt", "wait", "answer_approval", "answer_question"),
    *("bash", "bash_output", "bash_kill", "exec", "run_tests", "read_tests"),
    *("read_file", "write_file", "edit_file", "apply_patch"),
    *("list_directory", "glob", "grep", "search_code", "outline"),
    *("list_tasks", "get_task", "create_task", "update_task", "assign_task"),
    *("send_input", "session_events"),
]
SECRET = "kept-in-the-vault-012345678"
ONE_PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"  # a GIF
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-three\n+four\n*** End Patch\n"


@asynccontextmanager
async def client(api: Api, mode: str = MODERN, **headers: str) -> AsyncIterator[Client]:
    given = {"Authorization": f"Bearer {api.token}", **headers}
    async with (
        httpx2.AsyncClient(headers=given, timeout=TIMEOUT_S) as http,
        Client(streamable_http_client(f"{api.url}/mcp", http_client=http), mode=mode) as found,
    ):
        yield found


async def done(mcp: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await mcp.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return dict(result.structured_content or {})


async def refused(mcp: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await mcp.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return dict(result.structured_content or {})


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_every_tool_works_in_a_session(tmp_path: Path, mode: str) -> None:
    async with serving(tmp_path, replies=[{"text": "Hello there.", "times": 9}]) as api:
        session_id = await api.ready_session(purpose="by mcp")
        async with client(api, mode) as mcp:
            assert [tool.name for tool in (await mcp.list_tools()).tools] == NAMES
            (listed,) = (await done(mcp, "list_sessions"))["sessions"]
            assert (listed["session_id"], listed["purpose"]) == (session_id, "by mcp")
            here = {"session_id": session_id}
            await done(mcp, "write_file", **here, path="a.txt", content="one\ntwo\n")
            await done(mcp, "edit_file", **here, path="a.txt", edits=[{"old": "two", "new": "three"}])
            await done(mcp, "apply_patch", **here, patch=PATCH)
            assert (await done(mcp, "read_file", **here, path="a.txt"))["text"] == "one\nfour\n"
            ran = await done(mcp, "bash", **here, command="cd /tmp; cat /workspace/a.txt; false")
            assert (ran["exit_code"], ran["stdout"], ran["cwd"]) == (1, "one\nfour\n", "/tmp")
            assert (await done(mcp, "bash", **here, command="pwd"))["stdout"] == "/tmp\n"
            assert (await done(mcp, "glob", **here, pattern="*.txt"))["paths"] == ["a.txt"]
            (line,) = (await done(mcp, "grep", **here, pattern="fo.r"))["lines"]
            assert (line["path"], line["line"], line["text"]) == ("a.txt", 2, "four")
            given = await done(mcp, "send_input", **here, input={"type": "prompt", "text": "Say hello."})
            assert given == {"seq": 1}
            assert (await done(mcp, "exec", **here, argv=["printf", "%s", "$x"]))["stdout"] == "$x"
            listed = await done(mcp, "list_directory", **here)
            assert listed["entries"] == [{"path": "a.txt", "kind": "file", "size": 9}]
            started = await done(mcp, "bash", **here, command="echo on; sleep 100", yield_s=0.5, shell="b")
            at = {**here, "id": started["id"]}

            async def printed() -> str:
                return str((await done(mcp, "bash_output", **at))["text"])

            assert await eventually(printed) == "on\n"
            assert await done(mcp, "bash_kill", **at, signal="SIGTERM") == {"id": started["id"], "signal": 15}
            await api.until(session_id, "running", "idle")
            events = (await done(mcp, "session_events", **here, limit=500))["events"]
            assert "file.changed" in [each["event"]["type"] for each in events]
            assert [each["seq"] for each in events] == list(range(1, len(events) + 1))


async def test_an_edit_by_line_number_is_refused_if_the_file_has_changed_since(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        here = {"session_id": await api.ready_session(purpose="two clients"), "path": "a.txt"}
        async with client(api) as one, client(api) as other:
            await done(one, "write_file", **here, content="one\ntwo\n")
            read = await done(other, "read_file", **here)
            await done(one, "edit_file", **here, edits=[{"old": "one", "new": "zero\none"}])
            line = {"edits": [{"start_line": 2, "end_line": 2, "new": "2"}]}
            result = await refused(other, "edit_file", **here, **line)
            assert "edits by line number need if_hash" in result["detail"]
            result = await refused(other, "edit_file", **here, **line, if_hash=read["sha256"])
            assert result["error"] == "conflict" and "Read it again" in result["detail"]
            read = await done(other, "read_file", **here)
            assert read["text"] == "zero\none\ntwo\n"
            edited = await done(other, "edit_file", **here, **line, if_hash=read["sha256"])
            after = edited["sha256"]
            await done(other, "edit_file", **here, edits=[{"insert_line": 0, "new": "top"}], if_hash=after)
            assert (await done(one, "read_file", **here))["text"] == "top\nzero\n2\ntwo\n"


async def test_a_header_can_name_the_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(purpose="by header")
        async with client(api, **{"Hutch-Session": session_id}) as mcp:
            assert (await done(mcp, "bash", command="echo hello"))["stdout"] == "hello\n"
        async with client(api) as mcp:
            assert "`session_id` is missing" in (await refused(mcp, "bash", command="true"))["detail"]


async def test_the_error_in_a_call_is_described_in_plain_words(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, client(api) as mcp:
        here = {"session_id": "ses_01jd2m4c9k7w6t0q8n5x3vbaeh"}
        for tool, arguments, result in (
            ("bash", {"command": 7}, "bash: `command` must be text."),
            ("read_file", {}, "read_file: `path` is missing."),
            ("read_file", {"path": "a", "start_line": 0}, "read_file: `start_line` must be at least 1."),
            ("grep", {"pattern": "x", "ignore_case": "no"}, "grep: `ignore_case` must be true or false."),
            ("glob", {"pattern": "x", "colour": 1}, "glob: `colour`: There is no such field."),
        ):
            detail = (await refused(mcp, tool, **here, **arguments))["detail"]
            assert detail.partition(" It takes {")[0] == result


async def test_mcp_grants_no_additional_rights(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(purpose="private")
        bob, eve, reader = (
            await api.as_user("bob"),
            await api.as_user("eve"),
            await api.as_user("owner", scopes="read"),
        )
        accounts = Accounts(api.server.rows)
        users = {user.name: user.id for user in await accounts.users.list()}
        await accounts.shares.set(session_id, users["eve"], "observer", created_by=users["owner"])
        here = {"session_id": session_id}
        async with client(bob) as mcp:
            assert (await done(mcp, "list_sessions"))["sessions"] == []
            for tool, more in (
                ("bash", {"command": "true"}),
                ("read_file", {"path": "a.txt"}),
                ("write_file", {"path": "a.txt", "content": "x"}),
                ("send_input", {"input": {"type": "cancel"}}),
                ("session_events", {}),
            ):
                assert (await refused(mcp, tool, **here, **more))["error"] == "not_found"
        for watcher in (eve, reader):
            async with client(watcher) as mcp:
                assert (await done(mcp, "session_events", **here))["events"]
                assert (await refused(mcp, "bash", **here, command="touch x"))["error"] == "denied"
        token = (await accounts.tokens.list(users["eve"]))[0]
        async with client(eve) as mcp:
            await done(mcp, "list_sessions")
            await accounts.revoke_token(token.id, LOCAL)
            api.app.state.authenticator.forget(credential_id=token.id)
            with pytest.raises(Exception, match="error response"):
                await mcp.call_tool("list_sessions", {})
        nobody = await api.as_nobody()
        answer = await nobody.post("/mcp", json={})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert (await api.get("/mcp")).status_code == 405


async def test_a_file_is_masked_for_callers_who_may_only_read(tmp_path: Path) -> None:
    masked, lines = "*" * len(SECRET), [SECRET[:9], SECRET[9:18], SECRET[18:]]
    async with serving(tmp_path) as api:
        api.server.redactor.set_values([SECRET])
        here = {"session_id": await api.ready_session(purpose="masked")}
        reader = await api.as_user("owner", scopes="read")
        async with client(api) as mcp:
            for path, text in (
                ("plain", f"key={SECRET}\n"),
                ("broken", "\n".join([*lines, ""])),
                ("long", "k" * 1990 + SECRET + "\n"),
            ):
                await done(mcp, "write_file", **here, path=path, content=text)
            whole = await done(mcp, "read_file", **here, path="plain")
            assert whole["text"] == "key=[redacted:secret]\n" and whole["sha256"]
            for number in (1, 2, 3):
                at = {"start_line": number, "end_line": number}
                part = await done(mcp, "read_file", **here, path="broken", **at)
                assert part["text"] == "*" * 9 + "\n"
            found = (await done(mcp, "grep", **here, pattern=SECRET[9:18], glob="[bp]*"))["lines"]
            assert [(line["path"], line["text"]) for line in found] == [
                ("broken", "*" * 9),
                ("plain", "key=[redacted:secret]"),
            ]
        async with client(reader) as mcp:
            plain = await done(mcp, "read_file", **here, path="plain")
            assert (plain["text"], plain["sha256"]) == (f"key={masked}\n", None)
            broken = await done(mcp, "read_file", **here, path="broken")
            assert broken["text"] == f"{'*' * 9}\n" * 3
            long = await done(mcp, "read_file", **here, path="long")
            assert SECRET[:6] not in long["text"]


async def test_files_are_handled_by_the_tools_of_the_agent(tmp_path: Path) -> None:
    broken, image = "def f(:\n", base64.b64decode(ONE_PIXEL)
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        here, url = {"session_id": session_id}, f"{V1}/sessions/{session_id}/files"
        for path, data in ((".gitignore", b"made/\n"), ("made/b.py", b"x = 1\n"), ("dot.gif", image)):
            assert (await api.put(f"{url}/{path}", content=data)).is_success
        async with client(api) as mcp:
            written = await mcp.call_tool("write_file", {**here, "path": "src/a.py", "content": broken})
            assert "Warning: " in text_of(written) and "Created 'src/a.py'" in text_of(written)
            assert len((written.structured_content or {})["warnings"]) == 1
            await done(mcp, "write_file", **here, path="src/a.py", content="x = 1\n")
            edits = [{"old": "x = 1", "new": "x = ("}]
            assert len((await done(mcp, "edit_file", **here, path="src/a.py", edits=edits))["warnings"]) == 1
            found = await mcp.call_tool("grep", {**here, "pattern": "x = "})
            assert "More matches in files that .gitignore lists: 1. Pass include_ignored" in text_of(found)
            tree = await mcp.call_tool("list_directory", here)
            assert "src/\n  a.py  6 B" in text_of(tree) and "pass include_ignored" in text_of(tree)
            seen = await mcp.call_tool("read_file", {**here, "path": "/workspace/dot.gif"})
            assert [part.type for part in seen.content] == ["text", "image"]
            assert (seen.structured_content or {})["width"] == 1
            missing = await refused(mcp, "read_file", **here, path="a.py")
            assert missing["error"] == "not_found" and "list_directory" in missing["detail"]


async def test_a_search_by_mcp_does_not_reveal_to_readers_whether_a_guess_is_right(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.server.redactor.set_values([SECRET])
        here = {"session_id": await api.ready_session(purpose="searched")}
        reader = await api.as_user("owner", scopes="read")
        guess = {**here, "pattern": f"x {SECRET[:6]}", "output": "count"}
        async with client(api) as mcp:
            await done(mcp, "write_file", **here, path="plain", content=f"x {SECRET}\nx\n")
            await done(mcp, "write_file", **here, path=f"{SECRET}.txt", content="named\n")
            assert (await done(mcp, "grep", **guess))["counts"] == {"plain": 1}
        async with client(reader) as mcp:
            assert (await done(mcp, "grep", **guess))["counts"] == {}
            assert (await done(mcp, "grep", **{**guess, "pattern": "x"}))["counts"] == {"plain": 1}
            assert (await done(mcp, "glob", **here, pattern=f"{SECRET[:6]}*"))["total"] == 0
            assert (await done(mcp, "glob", **here, pattern="*"))["paths"] == ["plain"]


async def test_an_invalid_call_is_explained(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        here = {"session_id": await api.ready_session(purpose="wrong")}
        async with client(api) as mcp:
            for tool, arguments, lesson in (
                ("bash", {}, "command"),
                ("bash", {"command": 3}, "command"),
                ("bash", {"command": "true", "colour": "red"}, "colour"),
                ("read_file", {"path": "../x"}, "'..'"),
                ("read_file", {"path": "/etc/passwd"}, "workspace"),
                ("read_file", {"path": "none.txt"}, "none.txt"),
                ("edit_file", {"path": "a", "edits": []}, "edits"),
                ("apply_patch", {"patch": "nonsense"}, "patch"),
                ("grep", {"pattern": "("}, "("),
                ("send_input", {"input": {"type": "approve", "call_id": "x"}}, "waits for an answer"),
                ("reed", {}, "There is no tool"),
            ):
                assert lesson in (await refused(mcp, tool, **here, **arguments))["detail"], tool
        for body in (b"", b"{", b"[]", b"\xff", b'{"jsonrpc":"2.0"}'):
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            assert 400 <= (await api.post("/mcp", content=body, headers=headers)).status_code < 500


async def test_policies_hold_for_the_tools_for_files(tmp_path: Path) -> None:
    rules = [f"deny {tool} kept/**" for tool in ("read_file", "write_file", "apply_patch")]
    patch = "*** Begin Patch\n*** Update File: kept/key\n@@\n-x\n+y\n*** End Patch\n"
    async with serving(tmp_path, policy=[{"name": "kept", "rules": rules}]) as api:
        here = {"session_id": await api.ready_session()}
        async with client(api) as mcp:
            await done(mcp, "bash", **here, command="mkdir kept; echo x > kept/key; ln -s kept/key link")
            for path in ("kept/key", "./kept//key", "/workspace/kept/key", "link", "kept/none"):
                assert (await refused(mcp, "read_file", **here, path=path))["error"] == "denied", path
            for tool, more in (
                ("write_file", {"path": "link", "content": "y"}),
                ("apply_patch", {"patch": patch}),
                ("grep", {"pattern": "x", "path": "kept"}),
                ("grep", {"pattern": "x", "path": "link"}),
            ):
                assert "policy kept" in (await refused(mcp, tool, **here, **more))["detail"], tool
            assert (await done(mcp, "bash", **here, command="cat kept/key"))["stdout"] == "x\n"


async def test_a_list_of_sessions_has_a_link_to_the_next_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        made = [await api.ready_session(purpose=f"session {number}") for number in range(3)]
        async with client(api, MODERN) as mcp:
            first = await done(mcp, "list_sessions", limit=2)
            rest = await done(mcp, "list_sessions", limit=2, cursor=first["next"])
            listed = [each["session_id"] for each in (*first["sessions"], *rest["sessions"])]
            assert (listed, rest["next"]) == (made[::-1], None)


WAIT_S = 120
ASK = {"calls": [{"tool": "bash", "args": {"command": "touch made"}}]}
ASK_USER = {"calls": [{"tool": "ask_user", "args": {"question": "Which one?"}}]}
FINISH = {
    "text": "It is done.",
    "calls": [{"tool": "finish", "args": {"title": "Made it", "summary": "So."}}],
}


async def test_another_agent_opens_a_session_prompts_waits_and_answers(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=[ASK, ASK_USER, FINISH]) as api, client(api) as mcp:
        asked = {"purpose": "by mcp", "persona": "pair", "prompt": "Make it."}
        made = await done(mcp, "create_session", **asked)
        here = {"session_id": made["session_id"], "timeout_s": WAIT_S}
        first = await done(mcp, "wait", **here, after=made["last_event"])
        (question,) = first["questions"]
        assert (question["kind"], question["tool"], question["text"]) == ("approval", "bash", "touch made")
        wrong = await refused(mcp, "answer_approval", session_id=here["session_id"], call_id="no", allow=True)
        assert "waits for an answer" in wrong["detail"]
        answer = {"session_id": here["session_id"], "call_id": question["call_id"]}
        await done(mcp, "answer_approval", **answer, allow=True)
        second = await done(mcp, "wait", **here, after=first["last_event"])
        (question,) = second["questions"]
        assert (question["kind"], question["text"]) == ("question", "Which one?")
        await done(
            mcp, "answer_question", session_id=here["session_id"], call_id=question["call_id"], text="A"
        )
        last = await done(mcp, "wait", **here, after=second["last_event"])
        assert (last["ended"], last["title"], last["summary"]) == (True, "Made it", "So.")
        assert (last["reply"], last["questions"]) == ("It is done.", [])
        again = await done(mcp, "wait", **here, after=0)
        assert (again["ended"], again["questions"], again["title"]) == (True, [], "Made it")


async def test_a_wait_ends_in_time_and_says_how_far_it_is(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=[{"text": "Hi.", "times": 9}]) as api, client(api) as mcp:
        here = {"session_id": await api.ready_session()}
        idle = await done(mcp, "wait", **here, timeout_s=0.1)
        assert (idle["ended"], idle["questions"], idle["state"]) == (False, [], "idle")
        sent = await done(mcp, "send_prompt", **here, text="Say hi.")
        last = await done(mcp, "wait", **here, after=sent["last_event"], timeout_s=WAIT_S)
        assert (last["ended"], last["reply"]) == (True, "Hi.")


async def test_a_token_that_only_reads_opens_and_prompts_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        reader = await api.as_user("owner", scopes="read")
        async with client(reader) as mcp:
            assert (await refused(mcp, "create_session"))["error"] == "denied"
            for tool, more in (
                ("send_prompt", {"text": "x"}),
                ("answer_approval", {"call_id": "x", "allow": True}),
                ("answer_question", {"call_id": "x", "text": "x"}),
                ("exec", {"argv": ["true"]}),
                ("bash_kill", {"id": "bg_1"}),
                ("run_tests", {}),
            ):
                assert (await refused(mcp, tool, session_id=session_id, **more))["error"] == "denied", tool
            assert (await done(mcp, "wait", session_id=session_id, timeout_s=0))["state"] == "idle"
        stranger = await api.as_user("eve")
        async with client(stranger) as mcp:
            assert (await refused(mcp, "wait", session_id=session_id))["error"] == "not_found"


async def test_every_tool_has_a_title_and_the_schema_of_its_result(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, client(api) as mcp:
        for tool in (await mcp.list_tools()).tools:
            assert tool.title and tool.output_schema and tool.output_schema["type"] == "object", tool.name


async def test_tests_are_run_and_their_failures_read(tmp_path: Path) -> None:
    test = "import unittest\nclass T(unittest.TestCase):\n def test_a(self):\n  self.assertEqual(1, {})\n"
    async with serving(tmp_path) as api, client(api) as mcp:
        here = {"session_id": await api.ready_session()}
        await done(mcp, "write_file", **here, path="test_a.py", content=test.format(2))
        failed = await done(mcp, "run_tests", **here, wait_s=WAIT_S)
        assert (failed["state"], failed["failed"], failed["passed"]) == ("failed", 1, 0)
        (failure,) = failed["failures"]
        assert "test_a" in failure["name"] and "1 != 2" in failure["message"]
        await done(mcp, "write_file", **here, path="test_a.py", content=test.format(1))
        passed = await done(mcp, "run_tests", **here, failed=True, wait_s=WAIT_S)
        assert (passed["state"], passed["failures"]) == ("passed", [])
        assert (await done(mcp, "read_tests", **here))["id"] == passed["id"]
        assert (await done(mcp, "read_tests", **here, id=failed["id"]))["failures"] == [failure]
        assert (await refused(mcp, "read_tests", **here, id="tst_none"))["error"] == "not_found"


async def test_wrong_arguments_and_paths_are_explained_as_to_the_agent(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        async with client(api) as mcp:
            here = {"session_id": session_id}
            await done(mcp, "write_file", **here, path="src/a.txt", content="one")
            ran = await done(mcp, "exec", **here, argv='["cat", "src/a.txt"]')
            assert ran["stdout"] == "one"
            error = await refused(mcp, "exec", **here, argv="ls -a")
            assert "It takes {" in str(error) and "argv: [text, …]" in str(error)
            for path in ("A.TXT", "lib/a.txt"):
                error = await refused(mcp, "read_file", **here, path=path)
                assert "Similar paths: src/a.txt." in str(error)
        answered = await api.get(f"{V1}/sessions/{session_id}/files/a.tx")
        assert answered.status_code == 404 and "Similar paths: src/a.txt." in answered.text
