"""A server that everything happens to: killed, its jails and shells killed, its sockets cut, its disk full.

    python -m tests.stories.chaos PLACE ROUNDS SEED

Clients speak HTTP with it as users do, write down what was acknowledged and what they
were shown, and go on with the next server where they were. At the end a last server is
left alone until nothing is to be done, and everything is looked up. Run by root, the
place is a small disk of its own that is filled now and then.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from hutch.sessions.input_processing import DROPPED
from tests.deadline import DEADLINE_S

HUTCH = str(Path(sys.executable).with_name("hutch"))
DISK_BYTES = 256 * 1024 * 1024
SESSIONS = 6
V1 = "/api/v1"
CUT = (httpx.HTTPError, OSError, asyncio.TimeoutError)


@dataclass
class Known:
    """The responses that clients got, over the lives of all servers."""

    token: str = ""
    sessions: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)  # acknowledged inputs
    hashes: dict[tuple[str, int], str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    messages: int = 0


class Place:
    """Where all of it happens."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.home = root, root / "home"
        self.chance = random.Random(seed)
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HUTCH_HOME": str(self.home),
            "HUTCH_SERVER__PORT": "0",
            "HUTCH_SERVER__REQUESTS_PER_MINUTE": "1000000",
            "HUTCH_SESSIONS__RUNS": "4",
            "HUTCH_SESSIONS__RUNS_PER_USER": "4",
            "HUTCH_SESSIONS__IDLE_S": "2",
            "HUTCH_MODEL": f"scripted:{root / 'script.json'}",
        }
        work = {"tool": "bash", "args": {"command": "sleep 0.1; echo x >> count; echo done"}}
        finish = {"tool": "finish", "args": {"title": "Done"}}
        replies = [{"calls": [work]}, {"calls": [finish]}] * 5
        (root / "script.json").write_text(json.dumps({"replies": replies}))

    async def start(self) -> tuple[asyncio.subprocess.Process, str]:
        """A server, and where it is."""
        with (self.root / "said").open("wb") as said:
            server = await asyncio.create_subprocess_exec(
                *(HUTCH, "up", "--json"),
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        assert server.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            line = await server.stdout.readline()
        assert line, f"The server did not start: {(self.root / 'said').read_text()[-3000:]}"
        return server, json.loads(line)["url"]

    def token(self) -> str:
        ran = subprocess.run(
            [HUTCH, "tokens", "create", "--scope", "admin", "--json"],
            env=self.environment,
            check=True,
            capture_output=True,
        )
        return str(json.loads(ran.stdout)["token"])


async def follow(known: Known, url: str, id: str, chance: random.Random) -> None:
    """Follow a session, cut the line now and then, and come back where we were."""
    last = max((seq for each, seq in known.hashes if each == id), default=0)
    headers = {"Authorization": f"Bearer {known.token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=5) as api:
        while True:
            cut_after = chance.randrange(1, 60)
            async with api.stream(
                "GET", f"{V1}/sessions/{id}/events/stream", headers={"Last-Event-ID": str(last)}
            ) as answered:
                async for line in answered.aiter_lines():
                    if not line.startswith('data: {"seq"'):
                        continue
                    result = json.loads(line[6:])
                    if result["seq"] != last + 1:
                        known.wrong.append(f"{id}: {result['seq']} came after {last}")
                    last = result["seq"]
                    if known.hashes.setdefault((id, last), result["hash"]) != result["hash"]:
                        known.wrong.append(f"{id}: {last} was another before")
                    cut_after -= 1
                    if not cut_after:
                        known.happened["cut"] += 1
                        break


async def ask(known: Known, url: str, place: Place) -> None:
    """Give sessions things to do, and note what was acknowledged."""
    chance = place.chance
    headers = {"Authorization": f"Bearer {known.token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=10) as api:
        while True:
            if len(known.sessions) < SESSIONS:
                made = await api.post(f"{V1}/sessions", json={"purpose": "chaos", "prompt": "Begin."})
                if made.status_code == 201:
                    known.sessions[made.json()["id"]] = {}
                continue
            id = chance.choice(list(known.sessions))
            known.messages += 1
            what = chance.choice(["prompt", "message", "message", "cancel", "pause", "resume", "command"])
            if what == "command":
                command = chance.choice(["echo hello", "kill -9 $$", "head -c 100000 /dev/zero | tr '\\0' x"])
                await api.post(f"{V1}/sessions/{id}/commands", json={"command": command, "timeout_s": 5})
                continue
            body = {"type": what} | (
                {"text": f"Said {known.messages}."} if what in ("prompt", "message") else {}
            )
            given = await api.post(f"{V1}/sessions/{id}/inputs", json=body)
            if given.status_code == 202:
                known.sessions[id][given.json()["seq"]] = body
            elif given.status_code not in (409, 503, 507):
                known.wrong.append(f"{body} was answered {given.status_code}: {given.text[:300]}")
            await asyncio.sleep(chance.random() * 0.1)


async def disturb(known: Known, server: asyncio.subprocess.Process, place: Place) -> None:
    """Do something to a server that lives."""
    chance = place.chance
    while True:
        await asyncio.sleep(chance.uniform(0.1, 0.6))
        match chance.choice(["jail", "disk", "nothing"]):
            case "jail":
                below = [pid for pid in _below(server.pid) if "bwrap" in _name(pid)]
                if below:
                    os.kill(chance.choice(below), signal.SIGKILL)
                    known.happened["jail killed"] += 1
            case "disk" if os.geteuid() == 0:
                filler = place.root / "filler"
                try:
                    with filler.open("wb") as file:
                        while True:
                            file.write(b"\0" * (1 << 20))
                except OSError:
                    known.happened["disk full"] += 1
                await asyncio.sleep(chance.uniform(0.05, 0.4))
                filler.unlink()


async def round_(known: Known, place: Place) -> None:
    """One server, from its start to its death."""
    server, url = await place.start()
    if not known.token:
        known.token = await asyncio.to_thread(place.token)
    tasks = [
        asyncio.ensure_future(ask(known, url, place)),
        asyncio.ensure_future(disturb(known, server, place)),
    ]
    tasks += [
        asyncio.ensure_future(follow(known, url, id, place.chance))
        for id in place.chance.sample(list(known.sessions), min(3, len(known.sessions)))
    ]
    await asyncio.sleep(place.chance.uniform(0.3, 2.0))
    if place.chance.random() < 0.8:
        server.kill()
        known.happened["server killed"] += 1
    else:
        server.terminate()
        known.happened["server ended"] += 1
    for task in tasks[1:2]:
        task.cancel()
    async with asyncio.timeout(DEADLINE_S):
        await server.wait()
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception) and not isinstance(result, CUT):
            raise result
    (place.root / "filler").unlink(missing_ok=True)


async def check(known: Known, place: Place) -> None:
    """Leave a last server alone, then look everything up."""
    server, url = await place.start()
    headers = {"Authorization": f"Bearer {known.token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=DEADLINE_S) as api:
        for id, acknowledged in known.sessions.items():
            until = time.monotonic() + DEADLINE_S
            while True:
                state = (await api.get(f"{V1}/sessions/{id}")).json()["state"]
                if state == "paused":
                    await api.post(f"{V1}/sessions/{id}/inputs", json={"type": "resume"})
                elif state in ("idle", "parked", "ended") and await all_taken(api, id):
                    break
                if time.monotonic() > until:
                    known.wrong.append(f"{id} is stuck: {state}")
                    break
                await asyncio.sleep(0.1)
            await check_session(known, api, id, acknowledged)
    server.terminate()
    await server.wait()
    if left := await asyncio.to_thread(_left_behind, place.home):
        known.wrong.append(f"left behind: {left}")


async def all_taken(api: httpx.AsyncClient, id: str) -> bool:
    """True if nothing is left to be done with the newest inputs; it is noted after it was done."""
    after: int | None = 0
    while after is not None:
        page = (await api.get(f"{V1}/sessions/{id}/inputs?after={after}&limit=200")).json()
        if not all(each["processed"] for each in page["items"]):
            return False
        after = page["next"]
    return True


async def check_session(
    known: Known, api: httpx.AsyncClient, id: str, acknowledged: dict[int, dict[str, Any]]
) -> None:
    entries: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = (await api.get(f"{V1}/sessions/{id}/events?after={after}&limit=200")).json()
        entries, after = entries + page["items"], page["next"]
    log = {entry["seq"]: entry for entry in entries}
    for (each, seq), hash in known.hashes.items():
        if each == id and (seq not in log or log[seq]["hash"] != hash):
            known.wrong.append(f"{id}: event {seq} was shown and is not in the log")
    events = [entry["event"] for entry in entries]
    given = {}
    after = 0
    while after is not None:
        page = (await api.get(f"{V1}/sessions/{id}/inputs?after={after}&limit=200")).json()
        given |= {each["seq"]: each for each in page["items"]}
        after = page["next"]
    if unprocessed := [seq for seq, each in given.items() if not each["processed"]]:
        known.wrong.append(f"{id}: inputs {unprocessed} were never processed")
    runs: list[dict[str, Any]] = []
    cursor = ""
    while cursor is not None:
        page = (await api.get(f"{V1}/sessions/{id}/runs", params={"cursor": cursor, "limit": 200})).json()
        runs, cursor = runs + page["items"], page["next"]
    texts = Counter(run["prompt"] for run in runs)
    texts.update(event["text"] for event in events if event["type"] == "message.sent")
    refused = {event["input"]: event["refused"] for event in events if event.get("refused")}
    for seq, body in acknowledged.items():
        if seq not in given:
            known.wrong.append(f"{id}: input {seq} is gone: {body}")
        # A cancelled run drops the messages that it did not get, and the log says so.
        times = 0 if refused.get(seq) == DROPPED else 1
        if "text" in body and texts[body["text"]] != times:
            known.wrong.append(f"{id}: {body} was done {texts[body['text']]} times")
    for kind in ("run.started", "run.ended"):
        for run, count in Counter(e["run_id"] for e in events if e["type"] == kind).items():
            if count > 1:
                known.wrong.append(f"{id}: {kind} {count} times for {run}")
    if open_ := [run["id"] for run in runs if run["state"] != "ended"]:
        known.wrong.append(f"{id}: runs {open_} are not over")


def _below(pid: int) -> list[int]:
    found, left = [], [pid]
    while left:
        for task in Path(f"/proc/{left.pop()}/task").glob("*/children"):
            try:
                children = [int(child) for child in task.read_text().split()]
            except OSError:
                continue
            found += children
            left += children
    return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _left_behind(home: Path) -> list[str]:
    numbers = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    return [_name(pid) for pid in numbers if _is_of(pid, home)]


def _is_of(pid: int, home: Path) -> bool:
    try:
        return f"HUTCH_HOME={home}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


async def chaos(root: Path, rounds: int, seed: int) -> Known:
    if os.geteuid() == 0:
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(root)]
        await asyncio.to_thread(subprocess.run, words, check=True)
    try:
        known, place = Known(), Place(root, seed)
        for number in range(rounds):
            await round_(known, place)
            if known.wrong:
                break
            if sys.stderr.isatty() or number % 10 == 9:
                sys.stderr.write(f"round {number + 1}: {dict(known.happened)}\n")
        await check(known, place)
        return known
    finally:
        if os.geteuid() == 0:
            await asyncio.to_thread(subprocess.run, ["umount", "-l", str(root)], check=True)
        else:
            await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)


def main() -> int:
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    known = asyncio.run(chaos(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
    inputs = sum(len(each) for each in known.sessions.values())
    shown = f"{inputs} inputs acknowledged, {len(known.hashes)} events shown"
    sys.stdout.write(f"{dict(known.happened)}; {shown}\n")
    sys.stdout.write("\n".join(known.wrong or ["Nothing was lost."]) + "\n")
    return 1 if known.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
