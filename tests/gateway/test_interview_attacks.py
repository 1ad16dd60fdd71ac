"""A candidate who cheats: what they could gain by requests that no page sends."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.ids import new_session_id
from hutch.flows.user_accounts import Accounts
from hutch.store.interview_record_bundle import verify_bundle
from hutch.store.receipt_file_reader import read_receipt
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.gateway.interview_rooms import a_plan, a_room, new_room, write_bank
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


WORKER = """\
import os, time
count = 0
while True:
    count += 1
    open("counted.tmp", "w").write(str(count))
    os.replace("counted.tmp", "counted.txt")
    time.sleep(0.01)
"""


async def test_a_program_that_was_left_running_does_no_work_during_a_pause(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        path = f"{V1}/sessions/{workspace}"
        await room.candidate.put(f"{path}/files/work.py", content=WORKER.encode())
        command = {"command": "python3 work.py >/dev/null 2>&1 &"}
        assert (await room.candidate.post(f"{path}/commands", json=command)).status_code == 200

        async def count_after(before: str) -> str:
            read = await room.api.get(f"{path}/files/counted.txt")
            return read.text if read.status_code == 200 and read.text != before else ""

        assert await eventually(lambda: count_after(""))
        await room.post(room.assessor, "pause")
        stopped_at = (await room.api.get(f"{path}/files/counted.txt")).text
        await asyncio.sleep(0.3)  # thirty rounds of the program
        assert (await room.api.get(f"{path}/files/counted.txt")).text == stopped_at
        await room.post(room.assessor, "resume")
        assert int(await eventually(lambda: count_after(stopped_at))) > int(stopped_at)
        await room.post(room.assessor, "pause")
        await room.post(room.assessor, "end")
        await room.api.until(workspace, "ended")


async def test_leaving_a_question_stops_its_ai_and_nothing_of_it_reaches_the_next(tmp_path: Path) -> None:
    secret = "quince-4471"
    replies = [{"calls": [{"tool": "bash", "args": {"command": f"echo {secret}; sleep 600"}}]}]
    plan = a_plan(first_level="copilot")
    async with a_room(tmp_path, plan, replies=replies) as room:
        left = (await room.begin())["question"]["workspace"]
        await room.candidate.give(left, type="prompt", text=f"Remember {secret}.")

        async def started() -> bool:
            return any(each["type"] == "tool.called" for each in await room.api.events(left))

        await eventually(started)
        opened = (await room.post(room.candidate, "next", after=1))["question"]["workspace"]
        await room.api.until(left, "paused")

        async def stopped() -> bool:
            runs = (await room.api.get(f"{V1}/sessions/{left}/runs")).json()["items"]
            return all(each["state"] != "running" for each in runs)

        await eventually(stopped)
        refused = await room.candidate.post(f"{V1}/sessions/{left}/inputs", json={"type": "resume"})
        assert refused.status_code == 404
        assert (await room.candidate.get(f"{V1}/sessions/{left}/events")).status_code == 404
        assert secret not in str(await room.api.events(opened))
        assert secret not in str(await room.events(room.candidate))


CALLER = """\
import socket, sys
HOSTS = ("127.0.0.1", sys.argv[1]), ("localhost", 11434), ("1.1.1.1", 443), ("api.example.com", 443)
for host, port in HOSTS:
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
        print("reached", host)
    except OSError:
        print("refused")
"""


async def test_a_candidate_reaches_no_other_model_from_the_workspace(tmp_path: Path) -> None:
    """Neither this server nor another machine, and no change of the session allows it."""
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        path = f"{V1}/sessions/{workspace}"
        await room.candidate.put(f"{path}/files/call.py", content=CALLER.encode())
        command = {"command": f"python3 call.py {room.api.base_url.port}", "timeout_s": 60}
        ran = (await room.candidate.post(f"{path}/commands", json=command)).json()
        assert ran["stdout"].split() == ["refused"] * 4, ran
        for change in ({"network": {"allow": ["*"]}}, {"model": "other"}, {"persona": "copilot"}):
            refused = await room.candidate.patch(path, json=change)
            assert refused.status_code in (403, 404, 405), refused.text


async def test_a_receipt_of_the_candidate_shows_a_record_that_was_rewritten(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        await room.post(room.candidate, "end")
        await room.until_event("interview.sealed")
        receipts = []
        for client, session in ((room.candidate, room.id), (room.assessor, workspace)):
            receipt = tmp_path / f"{session}.json"
            receipt.write_bytes((await client.get(f"{V1}/sessions/{session}/receipt")).content)
            receipts.append(read_receipt(receipt))
        record = tmp_path / "record.zip"
        record.write_bytes((await room.assessor.get(f"{room.path}/record")).content)
    checked = verify_bundle(record, receipts=receipts)
    assert checked.ok and [each.receipts for each in checked.records][:2] == [1, 1], checked
    other = replace(receipts[0], session_id=new_session_id())
    assert "of which there is a receipt, is missing" in str(verify_bundle(record, receipts=[other]).problem)
    rewritten = replace(receipts[0], hash="0" * 64)
    assert not verify_bundle(record, receipts=[rewritten]).ok


SPY = "import pathlib\n\n\ndef run(path):\n    return sorted(map(str, pathlib.Path(path).rglob('*')))\n"


@pytest.fixture
def shown() -> Iterator[Path]:
    """A toolchain with a bank of questions in it. The users of jails cannot reach `tmp_path`."""
    place = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    (place / "bin").mkdir()
    (place / "bin/tool").write_text("#!/bin/sh\n")
    (place / "bin/tool").chmod(0o755)
    write_bank(place / "bank")
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


async def test_no_jail_sees_the_banks_of_questions(tmp_path: Path, shown: Path) -> None:
    """A bank may lie below a directory that jails see, such as /usr or one of `jail.toolchains`."""
    flags = {"jail": {"toolchains": [str(shown)]}, "questions": {"banks": [str(shown / "bank")]}}
    async with serving(tmp_path, **flags) as api:
        room = await new_room(api, a_plan())
        workspace = (await room.begin())["question"]["workspace"]
        look = {"command": f"ls {shown} && find {shown}/bank && umount {shown}/bank; touch {shown}/bank/x"}
        answered = await room.candidate.post(f"{V1}/sessions/{workspace}/commands", json=look)
        assert answered.status_code == 200, answered.text
        ran = answered.json()
        assert ran["stdout"].split() == ["bank", "bin", f"{shown}/bank"], ran
        assert "Read-only file system" in ran["stderr"], ran
        case = {"name": "spy", "call": "run", "args": [str(shown / "bank")], "expected": []}
        body = {"language": "python", "files": {"solution.py": SPY}, "tests": [case]}
        executed = (await api.post(f"{V1}/execute", json=body)).json()
        assert executed["cases"][0]["status"] == "passed", executed
