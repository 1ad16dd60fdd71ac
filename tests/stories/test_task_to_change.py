"""A task becomes a merged change without a hand on it; and what keeps it from becoming one."""

import asyncio
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.task_assignment import ASSIGNMENT_STATES
from hutch.flows.task_work.assignment_queue import AssignmentQueue
from tests.forge.repositories import ENVIRONMENT, commit, git, make_repository
from tests.gateway.api_server import V1, Api, cassette, eventually, serving
from tests.sessions.session_server import call

pytestmark = pytest.mark.anyio

WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
TESTS = (
    "import unittest\nfrom adding import add\nclass Adding(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
)
TASKS = (
    "# Tasks\n\n## To do\n- [ ] T-1 Fix add\n  - [ ] 2 and 3 are 5\n"
    "- [ ] T-2 Say so <!-- hutch:depends=T-1 -->\n"
)
ADD = "test_adding.Adding.test_add"
FIX = call("write_file", path="adding.py", content=RIGHT)
FINISH = call("finish", title="Add adds", summary="It subtracted.")
PROVEN = (
    call("update_task", criterion=1, evidence=ADD),  # refused: nothing has run
    call("update_task", progress="found the minus sign"),
    FIX,
    call("run_tests"),
    call("update_task", criterion=1, evidence=ADD),
    FINISH,
)
SAY_FINISH = call("finish", title="Say so", summary="It adds now.")
SAY = (call("write_file", path="README.md", content="It adds.\n"), SAY_FINISH)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = {"adding.py": WRONG, "test_adding.py": TESTS, "docs/TASKS.md": TASKS}
    make_repository(tmp_path / "work", files)
    git(tmp_path, "clone", "--quiet", "--bare", "work", "store.git")
    return tmp_path / "store.git"


async def synced(api: Api, repository: Path) -> dict[str, Any]:
    body = {"repository": str(repository), "text": TASKS}
    return dict((await api.post(f"{V1}/tasks/sync", json=body)).json())


async def assigned(api: Api, key: str, model: str, **how: Any) -> str:
    made = await api.post(f"{V1}/tasks/{key}/assignments", json={"model": model, **how})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def until(api: Api, key: str, *states: str) -> dict[str, Any]:
    """The newest assignment of a task, once it is in one of these states."""

    async def poll() -> Mapping[str, Any] | None:
        newest = (await api.get(f"{V1}/tasks/{key}/assignments")).json()["items"][0]
        assert newest["state"] != "failed" or "failed" in states, newest
        return newest if newest["state"] in states else None

    return dict(await eventually(poll))


async def test_a_task_becomes_a_merged_change_without_a_hand_on_it(tmp_path: Path, repository: Path) -> None:
    fix, say = cassette(tmp_path / "fix.json", *PROVEN), cassette(tmp_path / "say.json", *SAY)
    async with serving(tmp_path) as api:
        base = await synced(api, repository)
        await assigned(api, "T-2", say, merge=True)

        async def explained() -> bool:
            return (await until(api, "T-2", "waiting"))["reason"] == "waits for T-1 (todo)"

        await eventually(explained)
        twice = await api.post(f"{V1}/tasks/T-2/assignments", json={})
        assert (twice.status_code, twice.json()["code"]) == (409, "conflict")
        await assigned(api, "T-1", fix, merge=True)
        done = await until(api, "T-1", "done")
        assert [(each["kind"], each["target"]) for each in done["evidence"]] == [("test", ADD)]
        assert git(repository, "show", "main:adding.py") == RIGHT.strip()
        task = (await api.get(f"{V1}/tasks/T-1")).json()
        assert task["fields"]["state"] == "done"
        assert task["fields"]["owner"] == "persona:engineer"
        assert task["fields"]["criteria"] == [{"text": "2 and 3 are 5", "done": True}]
        assert [each["kind"] for each in task["links"]] == ["session", "change"]
        log = (await api.get(f"{V1}/tasks/T-1/history")).json()["items"]
        progress = " | ".join(each["note"] for each in log if each["kind"] == "progress")
        for said in ("Assigned to the agent engineer", "began to work", "found the minus sign", "is met"):
            assert said in progress, progress
        assert "Proposed change" in progress and "was merged into main" in progress

        await until(api, "T-2", "done")
        assert git(repository, "show", "main:README.md") == "It adds."
        body = {"repository": str(repository), "base": base["text"], "text": base["text"]}
        after = (await api.post(f"{V1}/tasks/sync", json=body)).json()["text"]
        assert "- [x] T-1 Fix add" in after and "  - [x] 2 and 3 are 5" in after and "- [x] T-2" in after


async def test_a_person_an_agent_and_the_api_edit_at_once_and_all_end_the_same(
    tmp_path: Path, repository: Path
) -> None:
    """The person commits to the branch, the agent works in a session, the API patches; nothing is lost."""
    person = tmp_path / "person"
    git(tmp_path, "clone", "--quiet", "store.git", "person")
    fix = cassette(tmp_path / "fix.json", *PROVEN)
    where = {"repository": str(repository), "branch": "main"}
    async with serving(tmp_path) as api:
        assert (await api.put(f"{V1}/tasks-files", json=where)).status_code == 200
        await assigned(api, "T-1", fix, merge=True)

        async def push(old: str, new: str) -> None:
            """Commit and push as a person does, again when somebody was faster."""

            def commit_and_push() -> bool:
                git(person, "fetch", "--quiet")
                git(person, "reset", "--quiet", "--hard", "origin/main")
                text = (person / "docs/TASKS.md").read_text()
                assert old in text, text
                commit(person, {"docs/TASKS.md": text.replace(old, new)})
                ran = subprocess.run(["git", "push", "-q"], cwd=person, env=ENVIRONMENT, check=False)
                return ran.returncode == 0

            await eventually(lambda: asyncio.to_thread(commit_and_push))

        for number in range(5):
            title, before = f"Say so {number}", "Say so" if not number else f"Say so {number - 1}"
            patched = api.patch(f"{V1}/tasks/T-2", json={"estimate": f"{number}h"})
            added = api.post(f"{V1}/tasks", json={"title": f"New {number}", "repository": str(repository)})
            answers = await asyncio.gather(patched, added, push(f"T-2 {before}", f"T-2 {title}"))
            assert [answers[0].status_code, answers[1].status_code] == [200, 201]
        await until(api, "T-1", "done")

        async def equal() -> bool:
            tasks = (await api.get(f"{V1}/tasks?limit=50")).json()["items"]
            body = {**where, "text": git(repository, "show", "main:docs/TASKS.md") + "\n", "dry_run": True}
            del body["branch"]
            body["base"] = body["text"]
            merged = (await api.post(f"{V1}/tasks/sync", json=body)).json()
            by_key = {each["key"]: each["fields"] for each in tasks}
            return (
                merged["text"] == body["text"]
                and not merged["updates"]
                and (by_key["T-2"]["title"], by_key["T-2"]["estimate"]) == ("Say so 4", "4h")
                and {f"New {number}" for number in range(5)} < {each["title"] for each in by_key.values()}
            )

        await eventually(equal)
    text = git(repository, "show", "main:docs/TASKS.md")
    assert "- [x] T-1 Fix add" in text and "  - [x] 2 and 3 are 5" in text and "T-2 Say so 4" in text
    assert git(repository, "show", "main:adding.py") == RIGHT.strip()


async def test_a_server_that_ends_is_continued_and_nothing_runs_twice(
    tmp_path: Path, repository: Path
) -> None:
    fix = cassette(tmp_path / "fix.json", *PROVEN)
    async with serving(tmp_path) as api:
        await synced(api, repository)
        await assigned(api, "T-1", fix, merge=True)
        work = await until(api, "T-1", "working", "proposed", "done")
    async with serving(tmp_path) as api:
        rival = AssignmentQueue(api.server.task_work)  # such as that of a server that is not quite dead
        while (await until(api, "T-1", *ASSIGNMENT_STATES))["state"] != "done":
            await asyncio.gather(rival.tick(), rival.tick())
        sessions = (await api.get(f"{V1}/sessions")).json()["items"]
        assert [each["id"] for each in sessions] == [work["session_id"]]
        assert len((await api.get(f"{V1}/changes")).json()["items"]) == 1
        again = (await api.get(f"{V1}/tasks/T-1/history")).json()["items"]
        notes = [each["note"] for each in again if each["kind"] == "progress"]
        assert sum("began to work" in each for each in notes) == 1
        assert sum("was merged" in each for each in notes) == 1
