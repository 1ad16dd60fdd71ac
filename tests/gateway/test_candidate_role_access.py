"""A candidate can do only what an invitation names: every route, field, tool and stream is tried as one."""

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from hutch.domain.ids import new_run_id
from hutch.domain.user import SHARE_SCOPES
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.gateway.mcp.tool_registry_and_session_tools import TOOLS
from hutch.system.clock_without_jumps import wall_ms
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.gateway.stream_clients import screen, socket
from tests.gateway.test_mcp_endpoint import client, refused
from tests.gateway.test_policies import candidate_in

pytestmark = pytest.mark.anyio

# Operations that a candidate may use: their own login, and lists of what they were invited to.
OWN = {
    *("list_sessions", "search_sessions", "me", "set_password", "browsers", "end_browser", "log_out"),
    *("list_approvals", "withdraw_approval", "join_by_invite", "list_interviews"),
}
# Without a login; these need a password, a link, an invite or a signature instead.
OPEN = {
    *("login_state", "log_in_by_password", "log_in_by_link", "begin_oidc", "finish_oidc", "accept_invite"),
    "github_webhook",
}
# Operations on a session of the invitation, with the scope that they need besides reading.
IN_SESSION: dict[str, str] = {
    **dict.fromkeys(
        (
            *("get_session", "list_inputs", "list_events", "search_events", "read_changed_file"),
            *(
                "get_changed_diff",
                "list_runs",
                "get_run",
                "follow_code",
                "list_files",
                "read_file",
                "search_files",
                "search_code",
            ),
            *("find_files", "list_snapshots", "get_diff", "list_commands", "read_command"),
            *("list_terminals", "export_terminal", "export_record", "export_events", "get_receipt"),
            *("list_test_runs", "get_test_history", "get_test_run", "list_test_cases", "compare_test_runs"),
            "list_test_suites",
            *("get_environment", "get_access", "get_debugger", "get_stack", "get_variables"),
            "remove_share",  # only their own
        ),
        "",
    ),
    **dict.fromkeys(("give_input", "resume_run"), "prompt"),
    **dict.fromkeys(
        (
            *("move_file", "make_directory", "write_file", "delete_file", "edit_file", "apply_patch"),
            *("take_snapshot", "restore_snapshot"),
        ),
        "files",
    ),
    **dict.fromkeys(
        (
            *("run_command", "run_program", "end_command", "signal_command"),
            *("run_tests", "cancel_test_run", "stop_watching_tests"),
            *("start_debugger", "stop_debugger", "control_debugger", "drive_debugger"),
            *("set_breakpoints", "evaluate"),
        ),
        "commands",
    ),
    **dict.fromkeys(("open_terminal", "close_terminal"), "terminals"),
    "list_previews": "previews",
}
BODIES: dict[str, Any] = {
    "give_input": {"type": "prompt", "text": "x"},
    "move_file": {"path": "a", "to": "b"},
    "make_directory": {"path": "d"},
    "edit_file": {"path": "a", "edits": [{"old": "a", "new": "b"}]},
    "apply_patch": {"patch": "*** Begin Patch\n*** Add File: n\n+x\n*** End Patch\n"},
    "take_snapshot": {"reason": "mine"},
    "run_command": {"command": "true"},
    "run_program": {"argv": ["true"]},
    "signal_command": {"signal": 15},
    "set_share": {"role": "observer"},
    "create_session": {},
    "next_question": {"after": 1},
    "start_debugger": {"path": "a"},
    "control_debugger": {"action": "continue"},
    "set_breakpoints": {"path": "a", "breakpoints": []},
    "evaluate": {"expression": "1"},
    "switch_language": {"language": "go"},
    "extend_time": {"minutes": 1},
    "set_level_of_help": {"level": "pair"},
    "answer_level_proposal": {"accept": True},
    "answer_help_offer": {"accept": True},
    "write_note": {"text": "x"},
    "send_interview_message": {"text": "x"},
    "give_rating": {"number": 1, "criterion": "x", "points": 1},
    "override_mark": {"number": 1, "mark": "goal", "points": 1},
    "report_client_events": {"events": [{"type": "focus"}]},
    "rerun_session": {"event": 1},
    "change_code": {"repository": "https://example.com/x.git", "prompt": "x"},
}
QUERIES = {
    "search_files": {"pattern": "a"},
    "search_code": {"query": "a"},
    "find_files": {"pattern": "a"},
    "search_events": {"text": "a"},
    "get_test_history": {"name": "a"},
    "compare_interviews": {"question": "a"},
    "compare_rerun": {"rerun": "a"},
}
DOCUMENT = Path(__file__).parents[2] / "docs/openapi.json"  # `make pages` compares it with the routes
MODES = ("get", "put", "post", "patch", "delete")


@cache
def operations() -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (method.upper(), path, operation["operationId"])
        for path, methods in json.loads(DOCUMENT.read_text())["paths"].items()
        for method, operation in methods.items()
        if method in MODES
    )


async def send(api: Api, method: str, path: str, name: str, session_id: str, run_id: str) -> httpx.Response:
    values = {
        "session_id": session_id,
        "interview_id": session_id,
        "run_id": run_id,
        "path": "a",
        "number": "1",
        "seq": "1",
        "user": "owner",
        "terminal_id": "none",
        "command_id": "none",
    }
    url = path
    for key in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
        url = url.replace(f"{{{key}}}", values.get(key, "none"))
    content: dict[str, Any] = {"json": BODIES.get(name, {})} if method in ("POST", "PATCH", "PUT") else {}
    if name == "write_file":
        content = {"content": b"x"}
    return await api.request(method, url, params=QUERIES.get(name), **content)


def test_every_operation_is_in_one_of_the_lists_or_refused() -> None:
    names = {name for _, _, name in operations()}
    assert (OWN | OPEN | set(IN_SESSION)) <= names


async def test_everything_that_no_invitation_names_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        invited, foreign = await api.ready_session(prompt="one"), await api.ready_session(prompt="two")
        cat = await candidate_in(api, invited)
        [run] = (await api.get(f"{V1}/sessions/{foreign}/runs")).json()["items"]
        allowed = []
        for method, path, name in operations():
            answered = await send(cat, method, path, name, foreign, run["id"])
            if name in OWN | OPEN:
                continue
            if answered.status_code not in (403, 404):
                allowed.append((method, path, answered.status_code, answered.text[:200]))
        assert allowed == []
        # In the session of the invitation, operations that are not listed are refused as well.
        for method, path, name in operations():
            if name not in OWN | OPEN | set(IN_SESSION):
                answered = await send(cat, method, path, name, invited, new_run_id())
                assert answered.status_code in (403, 404), (method, path, answered.text)
        assert (await api.get(f"{V1}/sessions/{invited}")).json()["state"] != "ended"


@pytest.mark.parametrize("scope", SHARE_SCOPES)
async def test_an_invitation_to_one_kind_of_work_allows_no_other(tmp_path: Path, scope: str) -> None:
    async with serving(tmp_path) as api:
        session = await api.ready_session(prompt="one")
        await api.put(f"{V1}/sessions/{session}/files/a", content=b"a")
        [run] = (await api.get(f"{V1}/sessions/{session}/runs")).json()["items"]
        cat = await candidate_in(api, session, scopes=(scope,))
        for method, path, name in operations():
            if name not in IN_SESSION or name == "remove_share":
                continue
            answered = await send(cat, method, path, name, session, run["id"])
            if IN_SESSION[name] in ("", scope):
                assert answered.status_code != 403, (name, answered.text)
            elif name == "cancel_test_run":  # it looks for the test run first
                assert answered.status_code == 404, (name, answered.text)
            else:
                assert answered.status_code == 403, (name, answered.text)
                assert f"does not include {IN_SESSION[name]}" in answered.text, (name, answered.text)


async def test_no_field_of_graphql_shows_more_than_the_invitation(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        invited, foreign = await api.ready_session(prompt="one"), await api.ready_session(prompt="two")
        cat = await candidate_in(api, invited)

        async def ask(query: str) -> dict[str, Any]:
            return dict((await cat.post("/api/graphql", json={"query": query})).json())

        listed = await ask("{ me { name } sessions { items { id runs { id } } } }")
        assert [each["id"] for each in listed["data"]["sessions"]["items"]] == [invited]
        for query in (
            f'session(id: "{foreign}") {{ id }}',
            f'runs(sessionId: "{foreign}") {{ id }}',
            "changes { id }",
            'change(id: "chg_none") { id }',
            "personas { name }",
            "models { default }",
            f'session(id: "{invited}") {{ shares {{ userId }} }}',
            f'session(id: "{invited}") {{ changes {{ id }} }}',
        ):
            answered = await ask(f"{{ {query} }}")
            assert answered["errors"][0]["extensions"]["code"] in ("denied", "not_found"), (query, answered)


async def test_no_tool_of_mcp_works_in_another_session(tmp_path: Path) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "bash": {"command": "true"},
        "read_file": {"path": "a"},
        "write_file": {"path": "a", "content": "x"},
        "edit_file": {"path": "a", "edits": [{"old": "x", "new": "y"}]},
        "apply_patch": {"patch": BODIES["apply_patch"]["patch"]},
        "glob": {"pattern": "*"},
        "grep": {"pattern": "x"},
        "search_code": {"query": "x"},
        "outline": {},
        "send_input": {"input": {"type": "prompt", "text": "x"}},
        "session_events": {},
        "send_prompt": {"text": "x"},
        "wait": {"timeout_s": 0},
        "answer_approval": {"call_id": "x", "allow": True},
        "answer_question": {"call_id": "x", "text": "x"},
        "bash_output": {"id": "bg_1"},
        "bash_kill": {"id": "bg_1"},
        "exec": {"argv": ["true"]},
        "run_tests": {},
        "read_tests": {},
        "list_directory": {},
    }
    async with serving(tmp_path) as api:
        invited, foreign = await api.ready_session(), await api.ready_session()
        cat = await candidate_in(api, invited, scopes=("previews",))
        async with client(cat) as mcp:
            assert "candidate" in str(await refused(mcp, "create_session"))
            one = {"task": "T-1"}
            of_tasks: dict[str, dict[str, object]] = {
                **{"list_tasks": {}, "get_task": one, "update_task": one, "assign_task": one},
                "create_task": {"title": "mine"},
            }
            for name, given in of_tasks.items():
                assert "tasks are for owner and member" in str(await refused(mcp, name, **given)), name
            for name in TOOLS:
                if name in ("list_sessions", "create_session", *of_tasks):
                    continue
                error = await refused(mcp, name, session_id=foreign, **arguments[name])
                assert "There is no session" in str(error), (name, error)
                if not TOOLS[name].reads:
                    error = await refused(mcp, name, session_id=invited, **arguments[name])
                    assert "does not include" in str(error), (name, error)


async def test_no_stream_or_socket_opens_for_another_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        invited, foreign = await api.ready_session(), await api.ready_session()
        cat = await candidate_in(api, invited, scopes=("prompt",))
        made = (await api.post(f"{V1}/sessions/{invited}/terminals", json={})).json()["id"]
        other = (await api.post(f"{V1}/sessions/{foreign}/terminals", json={})).json()["id"]
        here = f"{V1}/sessions/{foreign}"
        assert (await cat.get(f"{here}/events/stream")).status_code == 404
        there = f"/sessions/{foreign}"
        for path in (f"{there}/events/socket", f"{there}/terminals/{other}/socket"):
            with pytest.raises(InvalidStatus) as error:
                async with socket(cat, path):
                    pass
            assert error.value.response.status_code == 404
        for path in (f"/preview/{foreign}/8000/", f"/preview/{invited}/8000/"):
            assert (await cat.get(path)).status_code in (403, 404)
        async with screen(cat, invited, made) as watched:
            assert (await watched.receive("hello"))["writes"] is False


async def test_access_ends_when_the_invitation_says(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.ready_session()
        cat = await candidate_in(api, session, expires_ms=wall_ms() + 3_600_000)
        assert (await cat.get(f"{V1}/sessions/{session}")).status_code == 200
        await candidate_in(api, session, expires_ms=wall_ms() - 1)
        assert (await cat.get(f"{V1}/sessions/{session}")).status_code == 404
        assert (await cat.get(f"{V1}/sessions")).json()["items"] == []
        assert (await cat.get(f"{V1}/sessions/{session}/files/a")).status_code == 404


async def test_an_open_stream_ends_with_the_access(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.ready_session()
        cat = await candidate_in(api, session)
        made = (await api.post(f"{V1}/sessions/{session}/terminals", json={})).json()["id"]
        async with screen(cat, session, made) as watched:
            assert (await watched.receive("hello"))["writes"] is True
            await candidate_in(api, session, expires_ms=wall_ms() - 1)
            code, _ = await watched.closed()
            assert code != 1000


async def test_an_invitation_carries_sessions_scopes_and_their_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        first, second, third = [await api.ready_session() for _ in range(3)]
        body = {
            "role": "candidate",
            "session_id": first,
            "more_sessions": [second],
            "share_role": "candidate",
            "share_scopes": ["files"],
            "access_hours": 2,
        }
        made = await api.post(f"{V1}/invites", json=body)
        assert made.status_code == 201, made.text
        [listed] = (await api.get(f"{V1}/invites")).json()["items"]
        assert (listed["more_sessions"], listed["share_scopes"]) == ([second], ["files"])
        nobody = await api.as_nobody()
        secret = made.json()["url"].partition("#")[2]
        accepted = {"invite": secret, "name": "cat", "password": "a long enough password"}
        assert (await nobody.post(f"{V1}/invites/accept", json=accepted)).status_code == 201
        assert (await nobody.post(f"{V1}/invites/accept", json=accepted)).status_code == 403
        accounts = Accounts(api.server.rows)
        user = await accounts.users.find("cat")
        shares = await accounts.shares.of_user(user.id)
        assert {each.session_id for each in shares} == {first, second}
        assert {each.scopes for each in shares} == {("files",)}
        assert all(each.expires_ms and each.expires_ms > wall_ms() for each in shares)
        cat = await api.as_user("cat", "candidate")
        assert (await cat.get(f"{V1}/sessions/{third}")).status_code == 404
        for wrong in (
            {**body, "share_role": "observer"},
            {**body, "session_id": None, "share_role": None},
            {**body, "more_sessions": ["ses_01jd2m4c9k7w6t0q8n5x3vbaeh"]},
        ):
            assert (await api.post(f"{V1}/invites", json=wrong)).status_code in (400, 404), wrong


async def test_a_member_who_becomes_a_candidate_loses_everything_else(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        ada = await api.as_user("ada")
        assert (await ada.get(f"{V1}/models")).status_code == 200
        accounts = Accounts(api.server.rows)
        await accounts.set_role((await accounts.users.find("ada")).id, "candidate", LOCAL)

        async def refused_now() -> bool:
            return (await ada.get(f"{V1}/models")).status_code == 403

        await eventually(refused_now)
        answers = await asyncio.gather(
            *(ada.get(f"{V1}/{path}") for path in ("personas", "usage", "tokens", "changes", "status")),
            ada.post(f"{V1}/tokens", json={"name": "more", "scopes": ["read"]}),
            ada.post(f"{V1}/sessions", json={}),
        )
        assert [each.status_code for each in answers] == [403] * len(answers)
