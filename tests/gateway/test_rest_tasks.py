"""Tasks over the API of a real server."""

import pytest

from tests.gateway.api_server import V1, Api

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
    rest = (await api.get(f"{url}/history?cursor={history['next']}")).json()
    assert [(each["kind"], each["note"]) for each in rest["items"]] == [("progress", "half way")]
    for query, count in {"state=doing&state=todo": 1, "state=done": 0, "q=LOGIN": 1, "label=bug": 1}.items():
        found = await api.get(f"{V1}/tasks?repository={REPOSITORY}&{query}")
        assert len(found.json()["items"]) == count, query


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
    assert len((await watcher.get(f"{V1}/tasks?repository=/srv/roles")).json()["items"]) == 1
    assert (await watcher.post(f"{V1}/tasks", json={"title": "B"})).status_code == 403
    assessor = await api.as_user("rex", "assessor")
    assert (await assessor.get(f"{V1}/tasks")).status_code == 403
