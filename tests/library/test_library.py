"""The Python library and the TypeScript client, as their users run them, against a real server."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deadline import DEADLINE_S
from tests.gateway.api_server import Api, serving
from tests.node_installation import node

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]
EDIT = {"path": "adding.py", "edits": [{"old": "a - b", "new": "a + b"}]}
REPLIES: tuple[dict[str, Any], ...] = (
    {"text": "The sign.", "calls": [{"tool": "edit_file", "args": EDIT}]},
    {"calls": [{"tool": "finish", "args": {"title": "Mend add", "summary": "It adds now."}}]},
)
USES = """
import hutch
from hutch.domain.errors import HutchError, NotFound

with hutch.connect() as server:
    session = server.new_session("Mend add", files={"adding.py": "def add(a, b):\\n    return a - b\\n"})
    run = session.wait()
    assert (run.outcome, run.reply, run.branch) == ("done", "It adds now.", ""), run
    assert "+    return a + b" in session.diff()
    assert session.files() == ["adding.py"]
    session.shell("cd /tmp && X=3")
    assert session.shell("echo $PWD $X").stdout == "/tmp 3\\n"
    assert session.shell("exit 3").exit_code == 3
    assert session.id in [each.id for each in server.sessions()]
    fork = server.session(session.id).fork()
    fork.write("new.txt", "new")
    assert fork.read("new.txt") == b"new" and "new.txt" not in session.files()
    for failing in (lambda: session.read("missing.txt"), lambda: server.session("ses_" + "0" * 26)):
        try:
            failing()
        except NotFound:
            continue
        raise AssertionError("it was found")
    session.end()
    assert [each.type for each in session.events()][-1] == "session.ended"
    try:
        hutch.connect(server.url, "not-a-token").sessions()
    except HutchError as error:
        assert error.code == "unauthenticated"
    else:
        raise AssertionError("the token was accepted")
print("ok")
"""
NODE = """
import { Hutch, Problem } from "CLIENT";
const hutch = new Hutch(process.env.HUTCH_SERVER, process.env.HUTCH_TOKEN);
const files = { "adding.py": "def add(a, b):\\n    return a - b\\n" };
const session = await hutch.newSession({ prompt: "Mend add", files });
const run = await session.wait();
const types = [];
for await (const entry of session.events()) {
  types.push(entry.event.type);
  if (entry.event.type === "run.ended") break;
}
await session.write("a b.txt", "new");
const read = new TextDecoder().decode(await session.read("a b.txt"));
const shell = (await session.shell("cat adding.py")).stdout;
const second = await session.prompt("Again");
const refused = (error) => error instanceof Problem && error.code;
const missing = await hutch.session("ses_" + "0".repeat(26)).catch(refused);
const diff = await session.diff();
console.log(JSON.stringify({ run, types, read, shell, diff, second, missing }));
"""


async def run(api: Api, *words: str) -> str:
    """The output of a program that finds the server in its environment."""
    env = {**os.environ, "HUTCH_SERVER": api.url, "HUTCH_TOKEN": api.token}
    process = await asyncio.create_subprocess_exec(
        *words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    async with asyncio.timeout(DEADLINE_S):
        printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


async def test_a_script_uses_sessions_shells_files_and_runs(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=REPLIES) as api:
        assert await run(api, sys.executable, "-c", USES) == "ok\n"


async def test_the_notebook_runs_as_it_stands(tmp_path: Path) -> None:
    cells = json.loads((ROOT / "samples" / "hutch.ipynb").read_text())["cells"]
    code = "\n\n".join(each["source"] for each in cells if each["cell_type"] == "code")
    async with serving(tmp_path, replies=REPLIES) as api:
        printed = await run(api, sys.executable, "-c", code)
    for part in ("It adds now.", "return a + b", "edit_file"):
        assert part in printed


async def test_the_typescript_client_runs_in_node(tmp_path: Path) -> None:
    client = (ROOT / "clients" / "typescript" / "src" / "index.ts").as_uri()
    script = tmp_path / "uses.mjs"
    script.write_text(NODE.replace("CLIENT", client))
    async with serving(tmp_path, replies=(*REPLIES, {"text": "Done."})) as api:
        found = json.loads(await run(api, node(), "--no-warnings", str(script)))
    assert (found["run"]["outcome"], found["second"]["outcome"], found["missing"]) == (
        "done",
        "done",
        "not_found",
    )
    assert found["types"][0] == "session.opened" and found["types"][-1] == "run.ended"
    assert (found["read"], found["shell"]) == ("new", "def add(a, b):\n    return a + b\n")
    assert "+    return a + b" in found["diff"]
