"""Tasks over the API of a real server."""

from dataclasses import replace
from typing import Literal

import pytest

from hutch.domain.errors import Denied
from hutch.domain.user import Caller, Scope, User, scopes_of
from hutch.gateway.mcp.session_tool_and_call_types import Call
from hutch.gateway.mcp.tool_registry_and_session_tools import use
from hutch.store.users import Users
from tests.gateway.api_server import V1, Api
from tests.gateway.graphql_helpers import data, refusal

pytestmark = pytest.mark.anyio
REPOSITORY = "https://github.com/acme/pay.git"


async def test_a_task_is_created_changed_and_found(api: Api) -> None:
    new = {"title": "Fix login", "repository": REPOSITORY, "labels": ["bug"], "criteria": [{"text": "green"}]}
    made = await api.post(f"{V1}/tasks", json=new)
    assert made.status_code == 201, made.text
    task = made.json()
    assert (task["key"], task["repository"], task["revision"]) == ("T-1", "github.com/acme/pay", 1)
    assert task["fields"]["criteria"] == [{"text": "green", "done": False}]
    url = f"{V1}/tasks/{task['id']}"
    changed = (await api.patch(url, json={"state": "doing", "revision": 1})).json()
    assert (changed["fields"]["state"], changed["revision"]) == ("doing", 2)
    stale = await api.patch(url, json={"state": "done", "revision": 1})
    assert (stale.status_code, stale.json()["code"]) == (409, "conflict")
    assert (await api.get(f"{V1}/tasks/T-1?repository=git@github.com:acme/pay")).json() == changed
    assert (await api.post(f"{url}/comments", json={"text": "half way", "progress": True})).status_code == 204
    linked = (await api.post(f"{url}/links", json={"kind": "session", "target": "ses_1"})).json()
    assert linked["links"] == [{"kind": "session", "target": "ses_1"}]
    history = (await api.get(f"{url}/history?limit=2")).json()
    assert [each["kind"] for each in history["items"]] == ["created", "changed"]
    assert history["items"][1]["changes"] == {"state": ["todo", "doing"]}
    assert {each["by_name"] for each in history["items"]} == {"owner"}
    rest = (await api.get(f"{url}/history?cursor={history['next']}")).json()
    assert [(each["kind"], each["note"]) for each in rest["items"]] == [("progress", "half way")]
    for query, count in {"state=doing&state=todo": 1, "state=done": 0, "q=LOGIN": 1, "label=bug": 1}.items():
        found = await api.get(f"{V1}/tasks?repository={REPOSITORY}&{query}")
        assert len(found.json()["items"]) == count, query


async def test_a_task_that_names_a_known_repository_gets_its_address(api: Api) -> None:
    async def address(repository: str) -> str:
        made = await api.post(f"{V1}/tasks", json={"title": "A", "repository": repository})
        return str(made.json()["address"])

    for known in ("git@github.com:Acme/Known.git", "/srv/Known.git"):
        assert await address(known) == known
        name = "github.com/acme/known" if "@" in known else "/srv/known"
        assert await address(name) == known  # as the board names it
    assert await address("github.com/acme/unknown") == "https://github.com/acme/unknown"
    assert await address("unknown") == ""


async def test_lists_are_paged(api: Api) -> None:
    for number in range(3):
        await api.post(f"{V1}/tasks", json={"title": f"Task {number}", "repository": "/srv/paged"})
    first = (await api.get(f"{V1}/tasks?repository=/srv/paged&limit=2")).json()
    second = (await api.get(f"{V1}/tasks?repository=/srv/paged&limit=2&cursor={first['next']}")).json()
    assert [each["fields"]["title"] for each in first["items"] + second["items"]] == [
        "Task 2",
        "Task 1",
        "Task 0",
    ]
    assert second["next"] is None


async def test_a_file_is_synced(api: Api) -> None:
    body = {"repository": "/srv/synced", "text": "- [ ] Fix login @alice\n"}
    synced = (await api.post(f"{V1}/tasks/sync", json=body)).json()
    assert synced["text"] == "- [ ] T-1 Fix login @alice <!-- hutch:rev=1 -->\n"
    assert synced["changed"] == [{"kind": "added", "key": "T-1", "title": "Fix login"}]
    task = (await api.get(f"{V1}/tasks?repository=/srv/synced")).json()["items"][0]
    await api.patch(f"{V1}/tasks/{task['id']}", json={"title": "Board"})
    body |= {"base": synced["text"], "text": synced["text"].replace("Fix login", "File")}
    again = (await api.post(f"{V1}/tasks/sync", json=body)).json()
    assert [(each["field"], each["file"], each["stored"]) for each in again["conflicts"]] == [
        ("title", "File", "Board")
    ]


async def test_roles_decide(api: Api) -> None:
    await api.post(f"{V1}/tasks", json={"title": "A", "repository": "/srv/roles"})
    watcher = await api.as_user("eve", "observer")
    assert (await watcher.get(f"{V1}/tasks?repository=/srv/roles")).status_code == 403
    assert (await watcher.post(f"{V1}/tasks", json={"title": "B"})).status_code == 403
    assessor = await api.as_user("rex", "assessor")
    assert (await assessor.get(f"{V1}/tasks")).status_code == 403


async def test_tasks_are_in_graphql_and_mcp_with_the_same_rights(api: Api) -> None:
    where = {"repository": "https://github.com/acme/other"}
    owner, eve = Caller(*await owner_of(api)), await api.as_user("eve", "observer")
    made = await use(Call(api.server, owner), "create_task", {"title": "By MCP", **where}, "")
    change = {"task": made.id, "change": {"state": "doing"}, "comment": "half", "progress": True}
    await use(Call(api.server, owner), "update_task", change, "")
    read = await use(Call(api.server, owner), "get_task", {"task": made.key, **where}, "")
    assert [each.kind for each in read["history"]] == ["created", "changed", "progress"]
    listed = await use(Call(api.server, owner), "list_tasks", {"states": ["doing"], **where}, "")
    assert [each.key for each in listed["tasks"]] == ["T-1"]
    query = """query ($repository: String!) {
        tasks(repository: $repository, states: ["doing"]) {
            key fields { title state criteria { text } } links { kind }
            history { kind note } assignments { state evidence { target } }
        }
    }"""
    [task] = (await data(api, query, **where))["tasks"]
    assert (task["key"], task["fields"]["title"], task["assignments"]) == ("T-1", "By MCP", [])
    assert [each["note"] for each in task["history"]] == ["", "", "half"]
    assert (await refusal(eve, query, **where))["code"] == "denied"
    lower = Caller(replace(owner.user, role="observer"), owner.scopes, "token", "tok_1")
    with pytest.raises(Denied):
        await use(Call(api.server, lower), "get_task", {"task": made.id}, "")


async def test_filters_are_saved_for_their_user(api: Api) -> None:
    bob = await api.as_user("bob")
    url = f"{V1}/task-filters/my bugs"
    assert (await api.put(url, json={"label": "bug", "states": ["todo"]})).status_code == 204
    assert (await bob.get(f"{V1}/task-filters")).json() == {"items": []}
    [saved] = (await api.get(f"{V1}/task-filters")).json()["items"]
    assert (saved["name"], saved["query"]["label"], saved["query"]["states"]) == ("my bugs", "bug", ["todo"])
    assert (await bob.delete(url)).status_code == 404
    assert (await api.delete(url)).status_code == 204
    assert (await api.put(url, json={"owner": "x", "sql": "1"})).status_code == 422


async def owner_of(api: Api) -> tuple[User, frozenset[Scope], Literal["token"], str]:
    owner = await Users(api.server.rows).first_owner()
    assert owner is not None
    return owner, scopes_of("owner"), "token", "tok_1"
