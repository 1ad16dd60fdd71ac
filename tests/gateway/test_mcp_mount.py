"""MCP at the server's own /mcp: the official client, both generations of the protocol."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from hutch.flows.users import LOCAL, Accounts
from tests.gateway.api import V1, Api, serving
from tests.gateway.serving import LEGACY, MODERN, PATIENCE_S, text_of

pytestmark = pytest.mark.anyio

NAMES = [
    *("list_sessions", "bash", "read_file", "write_file", "edit_file", "apply_patch", "glob", "grep"),
    *("send_input", "session_events"),
]
SECRET = "kept-in-the-vault-012345678"
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-three\n+four\n*** End Patch\n"


@asynccontextmanager
async def client(api: Api, mode: str = MODERN, **headers: str) -> AsyncIterator[Client]:
    given = {"Authorization": f"Bearer {api.token}", **headers}
    async with (
        httpx2.AsyncClient(headers=given, timeout=PATIENCE_S) as http,
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
            assert (line["path"], line["number"], line["text"]) == ("a.txt", 2, "four")
            given = await done(mcp, "send_input", **here, input={"type": "prompt", "text": "Say hello."})
            assert given == {"seq": 1}
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
            after = edited["changes"][0]["after"]
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
            ("read_file", {"path": "a", "start": -1}, "read_file: `start` must be at least 0."),
            ("grep", {"pattern": "x", "ignore_case": "no"}, "grep: `ignore_case` must be true or false."),
            ("glob", {"pattern": "x", "colour": 1}, "glob: `colour`: There is no such field."),
        ):
            assert (await refused(mcp, tool, **here, **arguments))["detail"] == result


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
    masked, cut = "*" * len(SECRET), 256 * 1024 - 22
    async with serving(tmp_path) as api:
        api.server.redactor.set_values([SECRET])
        here = {"session_id": await api.ready_session(purpose="masked")}
        reader = await api.as_user("owner", scopes="read")
        async with client(api) as mcp:
            for path, text in (
                ("plain", f"key={SECRET}\n"),
                ("broken", f"{SECRET[:9]}\n{SECRET[9:18]}\n{SECRET[18:]}\n"),
                ("large", "k" * cut + SECRET + "\n"),
            ):
                await done(mcp, "write_file", **here, path=path, content=text)
            whole = await done(mcp, "read_file", **here, path="plain")
            assert whole["text"] == "key=[redacted:secret]\n"
            for start in range(len(SECRET) + 5):
                part = await done(mcp, "read_file", **here, path="plain", start=start, length=9)
                assert part["text"] == f"key={masked}\n"[start : start + 9]
            cut_in_two = await done(mcp, "read_file", **here, path="large")
            assert cut_in_two["text"] == "k" * cut + "*" * 22
            lines = (await done(mcp, "grep", **here, pattern=SECRET[9:18], glob="[bp]*"))["lines"]
            assert [(line["path"], line["text"]) for line in lines] == [
                ("broken", "*" * 9),
                ("plain", "key=[redacted:secret]"),
            ]
        async with client(reader) as mcp:
            parts = [
                await done(mcp, "read_file", **here, path="plain", start=at, length=9)
                for at in range(0, len(SECRET) + 5, 9)
            ]
            assert "".join(part["text"] for part in parts) == f"key={masked}\n"
            assert [(part["start"], part["bytes"]) for part in parts] == [(0, 9), (9, 9), (18, 9), (27, 5)]
            broken = await done(mcp, "read_file", **here, path="broken")
            assert broken["text"] == f"{'*' * 9}\n" * 3
            large = await done(mcp, "read_file", **here, path="large")
            assert large["text"] == "k" * cut + "*" * 22
            assert large["size"] == cut + len(SECRET) + 1


async def test_a_search_by_mcp_does_not_tell_readers_whether_a_guess_is_right(tmp_path: Path) -> None:
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


async def test_lists_of_sessions_and_files_have_a_link_to_the_next_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        made = [await api.ready_session(purpose=f"session {number}") for number in range(3)]
        url = f"{V1}/sessions/{made[0]}"
        for name in "abc":
            await api.put(f"{url}/files/{name}", content=b"hit\n")
        async with client(api, MODERN) as mcp:
            first = await done(mcp, "list_sessions", limit=2)
            rest = await done(mcp, "list_sessions", limit=2, cursor=first["next"])
            listed = [each["session_id"] for each in (*first["sessions"], *rest["sessions"])]
            assert (listed, rest["next"]) == (made[::-1], None)
            here = {"session_id": made[0], "limit": 2}
            for tool, pattern in (("glob", "*"), ("grep", "hit")):
                begun = await done(mcp, tool, **here, pattern=pattern)
                ended = await done(mcp, tool, **here, pattern=pattern, offset=begun["next"])
                assert (begun["cut"], begun["next"], ended["cut"], ended["next"]) == (True, 2, False, None)
