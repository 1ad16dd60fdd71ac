"""Policies of owners over a real server: what they stop, by every interface, and what is recorded."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from hutch.agent.saved_approvals import SavedApprovals
from hutch.agent.tool_call_rules import parse_rule
from hutch.flows.user_accounts import Accounts
from tests.gateway.api_server import V1, Api, cassette, serving
from tests.gateway.stream_clients import screen
from tests.gateway.test_mcp_endpoint import client, refused

pytestmark = pytest.mark.anyio

RUN_LS = {"calls": [{"tool": "bash", "args": {"command": "ls"}}]}


def policy(name: str = "strict", **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


async def candidate_in(api: Api, session_id: str, name: str = "cat", **limits: Any) -> Api:
    """A client of a candidate with whom the session is shared."""
    other = await api.as_user(name, "candidate")
    accounts = Accounts(api.server.rows)
    user = await accounts.users.find(name)
    await accounts.shares.set(session_id, user.id, "candidate", created_by="", **limits)
    return other


async def audit(api: Api) -> list[tuple[str, str]]:
    found = (await api.get(f"{V1}/audit")).json()["items"]
    return [(each["action"], each["detail"]) for each in found if each["action"].startswith("policy.")]


async def run(api: Api, session_id: str, command: str) -> httpx.Response:
    return await api.post(f"{V1}/sessions/{session_id}/commands", json={"command": command})


async def test_a_candidate_cannot_run_a_denied_command_by_any_interface(tmp_path: Path) -> None:
    rules = policy(roles=["candidate"], rules=["deny bash curl"])
    async with serving(tmp_path, policy=[rules]) as api:
        session = await api.ready_session()
        cat = await candidate_in(api, session)
        answered = await run(cat, session, "true && /usr/bin/curl example.com")
        assert answered.status_code == 403
        assert "A rule denies this: deny bash curl (policy strict in the command line)" in answered.text
        program = await cat.post(f"{V1}/sessions/{session}/exec", json={"argv": ["env", "curl", "x"]})
        assert program.status_code == 403 and "deny bash curl" in program.text
        assert (await run(cat, session, "echo fine")).json()["stdout"] == "fine\n"
        assert (await run(api, session, "command -v true")).status_code == 200
        async with client(cat) as mcp:
            error = await refused(mcp, "bash", session_id=session, command="sh -c 'curl x'")
            assert "deny bash curl" in json.dumps(error)
            error = await refused(mcp, "exec", session_id=session, argv=["env", "curl", "x"])
            assert "deny bash curl" in json.dumps(error)
        without_shell = await cat.post(f"{V1}/sessions/{session}/exec", json={"argv": ["curl", "x"]})
        assert (without_shell.status_code, "deny bash curl" in without_shell.text) == (403, True)
        terminal = await cat.post(f"{V1}/sessions/{session}/terminals", json={})
        assert terminal.status_code == 403 and "cannot be checked" in terminal.text
        mine = (await api.post(f"{V1}/sessions/{session}/terminals", json={})).json()["id"]
        async with screen(cat, session, mine) as watched:
            assert (await watched.receive("hello"))["writes"] is False
        assert (await audit(api))[-1] == (
            "policy.denied",
            "bash: deny bash curl (policy strict in the command line)",
        )


async def test_files_that_a_rule_protects_are_not_changed_under_another_name(tmp_path: Path) -> None:
    rules = policy(roles=["candidate"], rules=["deny write_file locked/**", "deny read_file locked/**"])
    async with serving(tmp_path, policy=[rules]) as api:
        session = await api.ready_session()
        made = await run(
            api, session, "mkdir locked && echo one > locked/a && ln -s locked open && echo x > b"
        )
        assert made.json()["exit_code"] == 0
        cat, here = await candidate_in(api, session), f"{V1}/sessions/{session}"
        patch = "*** Begin Patch\n*** Update File: b\n*** Move to: open/a\n@@\n-x\n+y\n*** End Patch\n"
        tried = [
            await cat.put(f"{here}/files/locked/a", content=b"two"),
            await cat.put(f"{here}/files/open/a", content=b"two"),
            await cat.put(f"{here}/files/open/../locked/a", content=b"two"),
            await cat.delete(f"{here}/files/open/a"),
            await cat.post(f"{here}/move", json={"path": "b", "to": "locked/a", "replace": True}),
            await cat.post(f"{here}/move", json={"path": "open/a", "to": "c"}),
            await cat.post(f"{here}/edit", json={"path": "open/a", "edits": [{"old": "one", "new": "two"}]}),
            await cat.post(f"{here}/patch", json={"patch": patch}),
            await cat.post(f"{here}/snapshots/1/restore", json={}),
            await cat.get(f"{here}/files/open/a"),
            await cat.get(f"{here}/diff"),
        ]
        assert [each.status_code for each in tried] == [403] * len(tried), [each.text for each in tried]
        assert (await cat.put(f"{here}/files/b", content=b"mine")).status_code == 200
        assert (await api.get(f"{here}/files/locked/a")).text == "one\n"


async def test_only_approvers_do_without_asking_what_a_policy_asks_about(tmp_path: Path) -> None:
    rules = policy(rules=["ask bash git push"], approvers=["owner"])
    async with serving(tmp_path, policy=[rules]) as api:
        ada = await api.as_user("ada")
        session = await ada.ready_session()
        assert (await run(api, session, "git push || true")).status_code == 200
        answered = await run(ada, session, "git push || true")
        assert answered.status_code == 403 and "Only owner may do this" in answered.text


async def test_the_agent_is_bound_by_everyone_who_works_in_its_session(tmp_path: Path) -> None:
    rules = policy(roles=["candidate"], rules=["deny bash ls"])
    async with serving(tmp_path, policy=[rules]) as api:
        model = cassette(tmp_path / "m.json", RUN_LS, {"text": "Done."}, RUN_LS, {"text": "Done."})
        session = await api.ready_session(model=model)
        await api.give(session, type="prompt", text="List")
        await api.until(session, "idle")
        await candidate_in(api, session)
        await api.give(session, type="prompt", text="List again")
        await api.until(session, "idle")
        first, second = [each for each in await api.events(session) if each["type"] == "tool.returned"]
        assert (first["ok"], first["rule"]) == (True, "")
        assert (second["ok"], second["rule"]) == (False, "deny bash ls")
        assert second["rule_source"] == "policy strict in the command line"
        assert ("policy.denied", "bash: deny bash ls (policy strict in the command line)") in await audit(api)


async def test_an_approval_needs_a_user_whom_the_policy_accepts_and_is_not_saved(tmp_path: Path) -> None:
    async with serving(tmp_path, policy=[policy(rules=["ask bash ls"], approvers=["owner"])]) as api:
        owner = await Accounts(api.server.rows).users.find("owner")
        saved = SavedApprovals(api.server.rows, owner.id)
        await saved.add([parse_rule("allow bash ls")])
        model = cassette(tmp_path / "m.json", RUN_LS, {"text": "Done."})
        session = await api.ready_session(model=model)
        cat = await candidate_in(api, session)
        await api.give(session, type="prompt", text="List")
        await api.until(session, "waiting")
        [asked] = [each for each in await api.events(session) if each["type"] == "approval.requested"]
        assert (asked["rule"], asked["source"]) == ("ask bash ls", "policy strict in the command line")
        assert (asked["policies"], asked["approvers"]) == (["strict"], ["owner"])
        yes = {"type": "approve", "call_id": asked["call_id"], "scope": "always"}
        answered = await cat.post(f"{V1}/sessions/{session}/inputs", json=yes)
        assert answered.status_code == 403 and "owner may. Rule: ask bash ls" in answered.text
        await api.give(session, **yes)
        await api.until(session, "idle")
        events = await api.events(session)
        [answer] = [each for each in events if each["type"] == "approval.answered"]
        assert (answer["allowed"], answer["scope"], answer["by"]) == (True, "session", owner.id)
        assert ("policy.asked", "bash: ask bash ls (policy strict in the command line)") in await audit(api)


async def test_a_session_cannot_get_hosts_that_a_policy_excludes(tmp_path: Path) -> None:
    rules = policy(roles=["member"], network=["*.example.org"])
    async with serving(tmp_path, policy=[rules], members={"network": ["*"]}) as api:
        ada = await api.as_user("ada")
        answered = await ada.post(f"{V1}/sessions", json={"network": ["a.example.org", "example.com"]})
        assert answered.status_code == 403
        assert "'example.com' may not be reached: policy strict" in answered.text
        session = await api.ready_session(network=["example.com", "a.example.org"])
        accounts = Accounts(api.server.rows)
        await accounts.shares.set(session, (await accounts.users.find("ada")).id, "member", created_by="")
        forked = await ada.post(f"{V1}/sessions/{session}/fork", json={})
        assert forked.json()["network"] == ["a.example.org"]
        mine = await ada.ready_session()
        changed = await ada.patch(f"{V1}/sessions/{mine}", json={"network": ["example.com"]})
        assert changed.status_code == 403 and "policy strict" in changed.text
        changed = await api.patch(f"{V1}/sessions/{mine}", json={"network": ["example.com"]})
        assert changed.status_code == 403 and "policy strict" in changed.text  # an owner cannot either


async def test_sharing_with_a_candidate_cuts_the_network_of_an_open_jail(tmp_path: Path) -> None:
    rules = policy("candidates-offline", roles=["candidate"], network=[])
    reach = "curl -sS -m 20 http://nowhere.invalid/ 2>&1; true"
    async with serving(tmp_path, policy=[rules], jail={"network": ["always.invalid"]}) as api:
        session = await api.ready_session(network=["nowhere.invalid"])
        before = (await run(api, session, reach)).json()["stdout"]
        assert "policy" not in before and "resolve" in before, before
        await candidate_in(api, session)
        after = (await run(api, session, reach)).json()["stdout"]
        assert "policy candidates-offline in the command line allows none" in after, after
        [attempt] = [
            each
            for each in await api.events(session)
            if each["type"] == "egress.attempted" and "candidates-offline" in each["reason"]
        ]
        assert attempt["allowed"] is False
        always = (await run(api, session, reach.replace("nowhere", "always"))).json()["stdout"]
        assert "candidates-offline" in always


async def test_owners_add_check_and_remove_policies_while_the_server_runs(tmp_path: Path) -> None:
    categories = {"payments": ["/srv/*"]}
    async with serving(tmp_path, categories=categories, policy=[policy(rules=["deny bash mv"])]) as api:
        session, ada = await api.ready_session(), await api.as_user("ada")
        for path in ("policies", "policies/check"):
            assert (await ada.post(f"{V1}/{path}", json={"name": "x", "call": "bash"})).status_code == 403
        new = {"name": "night", "rules": ["deny bash rm"]}
        made = await api.post(f"{V1}/policies", json=new)
        assert (made.status_code, made.json()["source"]) == (201, "the database")
        assert (await run(api, session, "rm -rf nothing")).status_code == 403
        listed = (await api.get(f"{V1}/policies")).json()["items"]
        assert [each["name"] for each in listed] == ["strict", "night"]
        asked = {"call": "bash mv a b; rm x", "role": "candidate", "repository": "/srv/a"}
        found = (await api.post(f"{V1}/policies/check", json=asked)).json()
        assert (found["action"], found["rule"]) == ("deny", "deny bash mv")
        assert [each["action"] for each in found["considered"]] == ["deny", "deny"]
        for wrong in ({**new, "name": "w", "rules": ["deny"]}, {**new, "categories": ["none"], "name": "w"}):
            assert (await api.post(f"{V1}/policies", json=wrong)).status_code == 400
        assert (await api.post(f"{V1}/policies", json=new)).status_code == 409
        assert (await api.delete(f"{V1}/policies/strict")).status_code == 400
        assert (await api.delete(f"{V1}/policies/night")).status_code == 204
        assert (await run(api, session, "rm -rf nothing")).status_code == 200


async def test_a_conversation_has_a_rate_and_says_when_to_retry(tmp_path: Path) -> None:
    limits = {"messages_per_minute": 3, "runs_per_hour": 2}
    async with serving(tmp_path, sessions=limits) as api:
        session = await api.ready_session(prompt="one")
        await api.give(session, type="prompt", text="two")
        await api.until(session, "idle")
        third = await api.post(f"{V1}/sessions/{session}/inputs", json={"type": "prompt", "text": "three"})
        assert (third.status_code, third.json()["limit"]) == (429, "sessions.runs_per_hour")
        assert 3500 < int(third.headers["Retry-After"]) <= 3600
        assert "had 2 runs in the last hour. Try again in" in third.json()["detail"]
        other = await api.ready_session()
        for kind in ("pause", "message", "message", "message"):
            await api.give(other, type=kind, **({"text": "x"} if kind == "message" else {}))
        more = await api.post(f"{V1}/sessions/{other}/inputs", json={"type": "message", "text": "x"})
        assert (more.status_code, more.json()["limit"]) == (429, "sessions.messages_per_minute")
        assert 1 <= int(more.headers["Retry-After"]) <= 60
        assert (await api.give(other, type="end"))["seq"]
