"""Issues on GitHub become tasks; one that asks for an agent later is the same task."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, run
from tests.gateway.api_server import V1, Api, eventually
from tests.gateway.webhook_sender import SECRET, deliver, labeled
from tests.stories.github_story import FINISH, FIX, TOKEN, Story, story

pytestmark = pytest.mark.anyio
BODY = "Make them lower.\n\n- [ ] slugs are lower case\n- [x] it is known\n\nThe token is {}."


async def tasks_of(api: Api, url: str) -> dict[str, dict[str, Any]]:
    listed = (await api.get(f"{V1}/tasks", params={"repository": url})).json()["items"]
    return {each["key"]: each for each in listed}


def new_issue(made: Story, title: str, body: str = "", **fields: Any) -> dict[str, Any]:
    repository = made.hub.repository("acme/project")
    issue = made.hub.state.new_issue(repository, "mallory", title, body)
    issue.update(fields)
    return issue


async def test_open_issues_become_tasks_once_and_end_with_their_issue(tmp_path: Path) -> None:
    with story(tmp_path) as made:
        made.keep("github_webhook_secret", SECRET)
        url = made.hub.url("acme/project")
        slugs = new_issue(
            made, "Slugs", BODY.format(TOKEN), labels=[{"name": "good first issue"}, {"name": "1"}]
        )
        wrong = new_issue(made, "\x1b[2JNo\nline", body=None)
        new_issue(made, "Long closed", state="closed")
        for number in range(120):  # more than a page
            new_issue(made, f"Number {number}")
        async with made.server(replies=(FIX, FINISH)) as api:
            found = (await api.post(f"{V1}/tasks/import-issues", json={"repository": url})).json()
            assert (len(found["added"]), found["ended"]) == (122, [])
            task = (await api.get(f"{V1}/tasks/T-1")).json()
            fields = task["fields"]
            assert (fields["title"], fields["labels"]) == ("Slugs", ["good-first-issue"])
            assert fields["criteria"] == [
                {"text": "slugs are lower case", "done": False},
                {"text": "it is known", "done": True},
            ]
            assert "Make them lower." in task["description"] and TOKEN not in task["description"]
            assert "\x1b" not in (await api.get(f"{V1}/tasks/T-2")).json()["fields"]["title"]

            # People change the task; the next import keeps that, and follows only the end of an issue.
            await api.patch(f"{V1}/tasks/T-1", json={"title": "Lower slugs", "priority": "high"})
            wrong.update(state="closed", state_reason="not_planned")
            again = (await api.post(f"{V1}/tasks/import-issues", json={"repository": f"{url}/"})).json()
            assert again == {"added": [], "ended": ["T-2"]}
            assert (await api.get(f"{V1}/tasks/T-2")).json()["fields"]["state"] == "cancelled"
            assert (await api.get(f"{V1}/tasks/T-1")).json()["fields"]["title"] == "Lower slugs"

            # A label asks Hutch to work on the issue: it is this task. Closing it does not stop the agent.
            assert (await deliver(api, "issues", labeled(url, slugs["number"]))).status_code == 202

            async def works() -> bool:
                listed = (await api.get(f"{V1}/tasks/T-1/assignments")).json()["items"]
                return bool(listed) and listed[0]["state"] == "proposed"

            await eventually(works)
            slugs["state"] = "closed"
            again = (await api.post(f"{V1}/tasks/import-issues", json={"repository": url})).json()
            assert again == {"added": [], "ended": []}
            assert len(await tasks_of(api, url)) == 50  # of a page; no key twice

            bob = await api.as_user("bob", "observer")
            refused = await bob.post(f"{V1}/tasks/import-issues", json={"repository": url})
            assert refused.status_code == 403
            for other in ("https://example.com/a/b", str(tmp_path)):
                answer = await api.post(f"{V1}/tasks/import-issues", json={"repository": other})
                assert 400 <= answer.status_code < 500, answer.text


async def test_a_command_imports_them_without_a_server(tmp_path: Path) -> None:
    with story(tmp_path) as made:
        new_issue(made, "Slugs")
        settings = {
            "HUTCH_GITHUB__HOSTS": ",".join(made.flags["github"]["hosts"]),
            "HUTCH_GITHUB__UNIX_SOCKET": made.flags["github"]["unix_socket"],
        }

        async def hutch(*words: str) -> str:
            done = await asyncio.to_thread(
                run,
                [HUTCH, "tasks", *words, "--repo", made.hub.url("acme/project")],
                cwd=tmp_path,
                env={"PATH": os.environ["PATH"], "HUTCH_HOME": str(tmp_path / "home"), **settings},
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
            )
            assert done.returncode == 0, done.stderr
            return str(done.stdout)

        assert await hutch("issues") == "Added: T-1. Ended: none.\n"
        assert json.loads(await hutch("issues", "--json")) == {"added": [], "ended": []}
        assert await hutch("list") == "T-1      todo      Slugs\n"
