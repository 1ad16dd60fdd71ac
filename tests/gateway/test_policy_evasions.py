"""Ways around the rules of an owner's policy, each tried over a real server: all of them are refused."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hutch.flows.user_accounts import Accounts
from tests.gateway.api_server import V1, Api, cassette, eventually, serving
from tests.gateway.graphql_helpers import refusal
from tests.gateway.stream_clients import socket
from tests.gateway.test_document_websocket import Editor, editing
from tests.gateway.test_mcp_endpoint import client, refused, text_of
from tests.gateway.test_policies import policy, run

pytestmark = pytest.mark.anyio

CLOSED = policy(roles=["member"], rules=["deny * secret/**", "deny bash", "deny run_tests"])
UNREADABLE = policy(roles=["member"], rules=["deny read_file secret/**", "deny bash"])
WORDS = "the-hidden-words"
COPY = (
    "diff --git a/secret/k.txt b/copy.txt\nsimilarity index 100%\ncopy from secret/k.txt\ncopy to copy.txt\n"
)
RENAME = COPY.replace("copy ", "rename ").replace("copy.txt", "moved.txt")


async def shared_with_mia(api: Api, session: str) -> Api:
    mia = await api.as_user("mia")
    accounts = Accounts(api.server.rows)
    user = await accounts.users.find("mia")
    await accounts.shares.set(session, user.id, "member", created_by="")
    made = await run(
        api, session, f"mkdir -p secret/deep pub/deep && echo {WORDS} > secret/k.txt && echo open > pub/a.txt"
    )
    assert made.json()["exit_code"] == 0, made.text
    return mia


async def last_step(api: Api, session: str) -> int:
    """The number of the newest event about a changed file."""
    found = (await api.get(f"{V1}/sessions/{session}/events", params={"limit": 1000})).json()["items"]
    return int(max(each["seq"] for each in found if each["event"]["type"] == "file.changed"))


async def test_directories_with_protected_files_are_neither_moved_nor_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path, policy=[CLOSED]) as api:
        session = await api.ready_session()
        mia, here = await shared_with_mia(api, session), f"{V1}/sessions/{session}"
        assert (await run(api, session, "mkdir -p a/secret b/x && echo s > b/x/y")).status_code == 200
        tried = [
            await mia.post(f"{here}/move", json={"path": "secret", "to": "pub2"}),
            await mia.post(f"{here}/move", json={"path": "pub", "to": "secret", "replace": True}),
            await mia.post(f"{here}/move", json={"path": "pub", "to": "secret/pub"}),
            await mia.delete(f"{here}/files/secret"),
            await mia.post(f"{here}/directories", json={"path": "secret/new"}),
        ]
        assert [each.status_code for each in tried] == [403] * len(tried), [each.text for each in tried]
        assert "deny * secret/**" in tried[0].text
        assert (await api.get(f"{here}/files/secret/k.txt")).text == f"{WORDS}\n"
        assert (await mia.post(f"{here}/move", json={"path": "pub", "to": "open"})).status_code == 200
        assert (await mia.delete(f"{here}/files/open")).status_code == 200
        audit = (await api.get(f"{V1}/audit")).json()["items"]
        assert any(each["action"] == "policy.denied" and "secret" in each["detail"] for each in audit)


async def test_a_directory_is_checked_file_by_file_at_any_depth(tmp_path: Path) -> None:
    rules = policy(
        roles=["member"], rules=["deny write_file *.lock", "deny write_file a/b/c/**", "deny bash"]
    )
    async with serving(tmp_path, policy=[rules]) as api:
        session = await api.ready_session()
        mia, here = await shared_with_mia(api, session), f"{V1}/sessions/{session}"
        made = "mkdir -p lib/deep x/b/c a/b/c && touch lib/deep/z.lock x/b/c/f && ln -s lib link"
        assert (await run(api, session, made)).json()["exit_code"] == 0
        tried = [
            await mia.post(f"{here}/move", json={"path": "lib", "to": "lib2"}),
            await mia.delete(f"{here}/files/lib"),
            await mia.delete(f"{here}/files/link/deep"),
            await mia.delete(f"{here}/files/a"),  # the protected directory is empty
            await mia.post(f"{here}/move", json={"path": "a", "to": "a2"}),
            await mia.post(f"{here}/move", json={"path": "x", "to": "a", "replace": True}),
        ]
        assert [each.status_code for each in tried] == [403] * len(tried), [each.text for each in tried]
        assert (await mia.post(f"{here}/move", json={"path": "x", "to": "y"})).status_code == 200


async def test_an_undo_does_not_change_protected_files(tmp_path: Path) -> None:
    async with serving(tmp_path, policy=[CLOSED]) as api:
        session = await api.ready_session()
        mia, here = await shared_with_mia(api, session), f"{V1}/sessions/{session}"
        assert (await api.put(f"{here}/files/secret/k.txt", content=b"new")).status_code == 200
        step = await last_step(api, session)
        for options in ({}, {"merge": True}, {"discard": True}, {"keep": True}):
            asked = {"type": "undo", "step": step, **options}
            answered = await mia.post(f"{here}/inputs", json=asked)
            assert answered.status_code == 403 and "deny * secret/**" in answered.text, answered.text
        async with client(mia) as mcp:
            asked = {"type": "undo", "step": step}
            assert "deny * secret/**" in json.dumps(
                await refused(mcp, "send_input", session_id=session, input=asked)
            )
        assert (await api.get(f"{here}/files/secret/k.txt")).text == "new"
        await api.give(session, type="undo", step=step)
        await eventually(lambda: _is_text(api, f"{here}/files/secret/k.txt", f"{WORDS}\n"))
        answered = await mia.post(f"{here}/inputs", json={"type": "redo"})
        assert answered.status_code == 403, answered.text


async def _is_text(api: Api, path: str, text: str) -> bool:
    return (await api.get(path)).text == text


async def test_unreadable_files_are_shown_by_no_other_request(tmp_path: Path) -> None:
    async with serving(tmp_path, policy=[UNREADABLE]) as api:
        session = await api.ready_session()
        mia, here = await shared_with_mia(api, session), f"{V1}/sessions/{session}"
        grown = {"path": "secret/k.txt", "edits": [{"insert_line": 0, "new": "x\n"}]}
        digest = (await api.get(f"{here}/files/secret/k.txt")).headers["etag"].strip('"')
        tried = [
            await mia.get(f"{here}/grep", params={"pattern": ".", "path": "secret"}),
            await mia.get(f"{here}/grep", params={"pattern": ".", "path": "secret/k.txt"}),
            await mia.post(f"{here}/patch", json={"patch": COPY}),
            await mia.post(f"{here}/patch", json={"patch": RENAME}),
            await mia.post(f"{here}/edit", json={**grown, "if_hash": digest}),
            await mia.post(f"{here}/move", json={"path": "secret/k.txt", "to": "k.txt"}),
            await mia.post(f"{here}/move", json={"path": "secret", "to": "pub2"}),
            await mia.get(f"{here}/diff"),
            await mia.get(f"{here}/files/secret/k.txt"),
        ]
        assert [each.status_code for each in tried] == [403] * len(tried), [each.text for each in tried]
        graph = "query($id: ID!) { session(id: $id) { diff { patch } } }"
        assert (await refusal(mia, graph, id=session))["code"] == "denied"
        async with client(mia) as mcp:
            for tool, arguments in {
                "grep": {"pattern": ".", "path": "secret"},
                "apply_patch": {"patch": COPY},
                "edit_file": {**grown, "if_hash": digest},
                "read_file": {"path": "secret/k.txt"},
            }.items():
                error = await refused(mcp, tool, session_id=session, **arguments)
                assert "deny read_file secret/**" in json.dumps(error), tool
        assert (await mia.get(f"{here}/files/pub/a.txt")).text == "open\n"
        assert (await mia.put(f"{here}/files/pub/a.txt", content=b"mine")).status_code == 200


async def test_a_search_leaves_out_unreadable_files_and_names_the_rule(tmp_path: Path) -> None:
    rule = "deny read_file secret/**"
    async with serving(tmp_path, policy=[UNREADABLE]) as api:
        session = await api.ready_session()
        mia, here = await shared_with_mia(api, session), f"{V1}/sessions/{session}"
        for output, shown in (("content", "lines"), ("files", "paths"), ("count", "counts")):
            found = (await mia.get(f"{here}/grep", params={"pattern": ".", "output": output})).json()
            assert "pub/a.txt" in json.dumps(found[shown]) and "k.txt" not in json.dumps(found), found
            assert found["left_out"] == [rule]
        assert (await mia.get(f"{here}/grep", params={"pattern": WORDS})).json()["total"] == 0
        assert (await api.get(f"{here}/grep", params={"pattern": WORDS})).json()["total"] == 1
        async with client(mia) as mcp:
            answer = text_of(await mcp.call_tool("grep", {"session_id": session, "pattern": "."}))
            assert "pub/a.txt" in answer and "k.txt" not in answer
            assert f"(Left out: the files that `{rule}` excludes.)" in answer
            for tool, given in (("search_code", {"query": f"open {WORDS} k"}), ("outline", {})):
                answer = text_of(await mcp.call_tool(tool, {"session_id": session, **given}))
                assert "pub/a.txt" in answer and "k.txt" not in answer, tool
                assert f"(Left out: the files that `{rule}` excludes.)" in answer
                error = await refused(mcp, tool, session_id=session, path="secret", **given)
                assert rule in json.dumps(error), tool
        found = (await mia.get(f"{here}/code-search", params={"query": WORDS})).json()
        assert found["matches"] == []
        found = (await api.get(f"{here}/code-search", params={"query": WORDS})).json()
        assert [each["path"] for each in found["matches"]] == ["secret/k.txt"]


async def test_the_agent_does_not_read_unreadable_files_by_other_tools(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"tool": "grep", "args": {"pattern": "hidden"}},
        {"tool": "grep", "args": {"pattern": "hidden", "path": "secret"}},
        {"tool": "apply_patch", "args": {"patch": COPY}},
        {"tool": "edit_file", "args": {"path": "secret/k.txt", "edits": [{"insert_line": 0, "new": "x\n"}]}},
    ]
    async with serving(tmp_path, policy=[UNREADABLE]) as api:
        replies = [{"calls": [each]} for each in calls]
        session = await api.ready_session(model=cassette(tmp_path / "m.json", *replies, {"text": "Done."}))
        await shared_with_mia(api, session)
        await api.give(session, type="prompt", text="Look")
        await api.until(session, "idle")
        returned = [each for each in await api.events(session) if each["type"] == "tool.returned"]
        assert len(returned) == len(calls)
        assert not any(WORDS in json.dumps(each) for each in returned), returned
        assert [each["rule"] for each in returned[1:]] == ["deny read_file secret/**"] * 3


async def test_an_open_document_is_shown_to_nobody_who_may_not_read_it(tmp_path: Path) -> None:
    async with serving(tmp_path, policy=[UNREADABLE]) as api:
        session = await api.ready_session()
        mia = await shared_with_mia(api, session)
        async with editing(api, session, "secret/k.txt") as owner, socket_of(mia, session) as hers:
            await owner.sees(WORDS)
            await hers.send("open", path="secret/k.txt")
            error = await hers.until("error")
            assert "deny read_file secret/**" in json.dumps(error)
            assert WORDS not in hers.text


async def test_an_open_document_is_closed_by_a_new_policy(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.ready_session()
        mia = await shared_with_mia(api, session)
        async with editing(mia, session, "secret/k.txt") as hers:
            await hers.sees(WORDS)
            rules = policy(roles=["member"], rules=["deny write_file secret/**"])
            added = await api.post(f"{V1}/policies", json=rules)
            assert added.status_code == 201, added.text
            await hers.type(0, "mine ")
            assert "deny write_file secret/**" in json.dumps(await hers.until("error"))
        async with editing(api, session, "secret/k.txt") as owner:
            await owner.sees(WORDS)
            assert "mine" not in owner.text


@asynccontextmanager
async def socket_of(api: Api, session: str) -> AsyncIterator[Editor]:
    """A connection for documents, without an open file."""
    async with socket(api, f"/sessions/{session}/documents/socket") as connection:
        yield Editor(connection)


async def test_the_test_command_of_a_session_is_a_command(tmp_path: Path) -> None:
    rules = policy(roles=["member"], rules=["deny bash git push"])
    async with serving(tmp_path, policy=[rules]) as api:
        mia = await api.as_user("mia")
        command = "id > who.txt; git push"
        for path, body in {
            "/api/code": {"repoUrl": "https://github.com/o/r", "prompt": "x", "tests": command},
            f"{V1}/sessions": {"delivery": {"tests": command}},
        }.items():
            answered = await mia.post(path, json=body)
            assert answered.status_code == 403 and "deny bash git push" in answered.text, answered.text


async def test_a_denied_test_command_never_runs_in_an_existing_session(tmp_path: Path) -> None:
    run_tests = {"calls": [{"tool": "run_tests", "args": {}}]}
    write = {"calls": [{"tool": "write_file", "args": {"path": "new.txt", "content": "x"}}]}
    async with serving(tmp_path) as api:
        mia = await api.as_user("mia")
        model = cassette(tmp_path / "m.json", run_tests, write, {"text": "Done."})
        session = await api.ready_session(model=model, delivery={"tests": "touch ran.txt"})
        mia, here = await shared_with_mia(api, session), f"{V1}/sessions/{session}"
        added = await api.post(f"{V1}/policies", json=policy(roles=["member"], rules=["deny bash touch"]))
        assert added.status_code == 201, added.text
        answered = await mia.post(f"{here}/tests", json={})
        assert answered.status_code == 403 and "deny bash touch" in answered.text
        async with client(mia) as mcp:
            error = await refused(mcp, "run_tests", session_id=session)
            assert "deny bash touch" in json.dumps(error)
        await api.give(session, type="prompt", text="Test")
        await api.until(session, "idle")
        [tests] = [each for each in await api.events(session) if each["type"] == "tool.returned"][:1]
        assert not tests["ok"] and "deny bash touch" in tests["text"]
        [ended] = [each for each in await api.events(session) if each["type"] == "run.ended"]
        assert (ended["outcome"], "deny bash touch" in ended["reason"]) == ("tests_failing", True)
        assert (await api.get(f"{here}/files/ran.txt")).status_code == 404


async def test_a_fork_does_not_take_a_test_command_that_its_user_may_not_run(tmp_path: Path) -> None:
    rules = policy(rules=["ask bash touch"], approvers=["owner"])
    async with serving(tmp_path, policy=[rules]) as api:
        session = await api.ready_session(delivery={"tests": "touch ran.txt"})
        mia = await shared_with_mia(api, session)
        forked = (await mia.post(f"{V1}/sessions/{session}/fork", json={})).json()["id"]
        await mia.until(forked, "idle", "parked")
        answered = await mia.post(f"{V1}/sessions/{forked}/tests", json={})
        assert answered.status_code == 403 and "ask bash touch" in answered.text
        own = await api.post(f"{V1}/sessions/{session}/tests", json={"wait_s": 60})
        assert (own.status_code, own.json()["state"]) == (200, "passed"), own.text
