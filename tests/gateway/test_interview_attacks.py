"""A candidate who cheats: what they could gain by requests that no page sends."""

from pathlib import Path

import pytest

from hutch.flows.user_accounts import Accounts
from tests.gateway.api_server import V1, Api, eventually
from tests.gateway.interview_rooms import a_room
from tests.gateway.stream_clients import ended, socket

pytestmark = pytest.mark.anyio


async def test_a_candidate_does_not_end_the_workspace(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        path = f"{V1}/sessions/{workspace}"
        refused = await room.candidate.post(f"{path}/inputs", json={"type": "end"})
        assert refused.status_code == 403, refused.text
        ran = await room.candidate.post(f"{path}/commands", json={"command": "echo 1"})
        assert ran.json()["stdout"] == "1\n"


async def test_a_candidate_does_not_choose_options_of_the_model(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        path = f"{V1}/sessions/{workspace}"
        prompt = {"type": "prompt", "text": "x", "generation": {"effort": "high"}}
        refused = await room.candidate.post(f"{path}/inputs", json=prompt)
        assert refused.status_code == 403, refused.text
        assert (await room.api.post(f"{path}/inputs", json=prompt)).status_code == 202


@pytest.mark.parametrize(
    "options", [{"limits": {"turns": 900}}, {"generation": {"effort": "high"}}, {"model": "other"}]
)
async def test_a_candidate_does_not_change_options_by_resuming_a_run(
    tmp_path: Path, options: dict[str, object]
) -> None:
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        path = f"{V1}/sessions/{workspace}"
        before = (await room.api.get(path)).json()
        await room.candidate.give(workspace, type="pause")
        given = await room.candidate.give(workspace, type="prompt", text="x")

        async def run_id() -> str | None:
            found = (await room.api.get(f"{path}/runs")).json()["items"]
            return next((each["id"] for each in found if each["input"] == given["seq"]), None)

        resumed = f"{V1}/runs/{await eventually(run_id)}/resume"
        assert (await room.candidate.post(resumed, json=options)).status_code == 403
        after = (await room.api.get(path)).json()
        for name in ("limits", "generation", "model"):
            assert after[name] == before[name]


async def invited(api: Api, name: str, room_id: str) -> Api:
    """The client of another user who has a link for candidates to the same interview."""
    client = await api.as_user(name, "candidate")
    accounts = Accounts(api.server.rows)
    user = await accounts.users.find(name)
    await accounts.shares.set(room_id, user.id, "candidate", created_by="")
    return client


async def test_a_second_candidate_reads_nothing_of_the_first(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        early = await invited(room.api, "early", room.id)
        async with socket(early, f"/sessions/{room.id}/events/socket?after=0") as follower:
            await room.begin()
            assert (await ended(follower))[0] == 4403
        late = await invited(room.api, "late", room.id)
        for client in (early, late):
            for path in ("", "/events", "/events.jsonl", "/record", "/receipt"):
                answered = await client.get(f"{V1}/sessions/{room.id}{path}")
                assert answered.status_code == 404, path
            assert (await client.get(f"{V1}/sessions")).json()["items"] == []
            asked = {"query": "{ sessions { items { id } } }"}
            assert room.id not in (await client.post("/api/graphql", json=asked)).text
        assert (await room.candidate.get(f"{V1}/sessions/{room.id}/events")).status_code == 200


LISTENER = """\
import http.server

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open("told.txt", "a") as file:
            file.write(self.path)
        self.send_response(200)
        self.end_headers()

http.server.HTTPServer(("127.0.0.1", 8000), Page).serve_forever()
"""


async def test_a_program_gets_no_commands_by_its_preview_during_a_pause(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        path, preview = f"{V1}/sessions/{workspace}", f"/preview/{workspace}/8000"
        await room.candidate.put(f"{path}/files/listen.py", content=LISTENER.encode())
        command = {"command": "python3 listen.py >/dev/null 2>&1 &"}
        assert (await room.candidate.post(f"{path}/commands", json=command)).status_code == 200

        async def listens() -> bool:
            return (await room.candidate.get(f"{preview}/first")).status_code == 200

        await eventually(listens)
        await room.post(room.assessor, "pause")
        assert (await room.candidate.get(f"{preview}/second")).status_code == 403
        assert "second" not in (await room.api.get(f"{path}/files/told.txt")).text
        assert (await room.candidate.get(f"{path}/files/listen.py")).status_code == 200
        await room.post(room.assessor, "resume")
        assert (await room.candidate.get(f"{preview}/third")).status_code == 200
