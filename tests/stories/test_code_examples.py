"""The examples of docs/code.md do what the page says, as they stand."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.deadline import DEADLINE_S
from tests.gateway.api_server import V1, Api, serving
from tests.node_installation import node
from tests.sessions.session_server import call, cassette, repository

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).resolve().parents[2] / "docs/code.md").read_text()
EXAMPLES = dict(re.findall(r"^```(bash|python|javascript)\n(.*?)^```$", PAGE, re.M | re.S))
RUN = {
    "bash": ["bash", "-c"],
    "python": [sys.executable, "-c"],
    "javascript": [node(), "--input-type=module", "-e"],
}
FIX = call("write_file", path="slug.py", content="def slug(text):\n    return text.lower()\n")
FINISH = call("finish", title="Slugs are lower case", summary="As they should be.")
SAYING = {"text": "Now they are lower case.", **FIX}
FOLLOWING = [language for language in RUN if language != "bash"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def start(language: str, api: Api, repo: Path, **other: str) -> asyncio.subprocess.Process:
    """An example of the page, as it stands."""
    environment = {
        "PATH": os.environ["PATH"],
        "HUTCH": api.url,
        "TOKEN": api.token,
        "REPO": str(repo),
        "PYTHONUNBUFFERED": "1",
    }
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *RUN[language], EXAMPLES[language], env=environment | other, stdout=pipe, stderr=pipe
    )


async def ended(example: asyncio.subprocess.Process) -> tuple[str, str]:
    """Its output until its end."""
    async with asyncio.timeout(DEADLINE_S):
        said, wrong = await example.communicate()
    return said.decode(), wrong.decode()


@pytest.mark.parametrize("language", RUN)
async def test_an_example_of_the_page(tmp_path: Path, language: str) -> None:
    repo = repository(tmp_path / "repo")
    model = cassette(tmp_path / "c.json", [SAYING, FINISH])
    async with serving(tmp_path / "server", model=model) as api:
        example = await start(language, api, repo)
        said, wrong = await ended(example)
    assert example.returncode == 0, wrong
    assert "pull_request" in said and "done" in said
    assert "hutch/slugs-are-lower-case" in said
    assert "Now they are lower case." in said and "As they should be." in said


@pytest.mark.parametrize("language", RUN)
async def test_a_wrong_token_is_no_success(tmp_path: Path, language: str) -> None:
    async with serving(tmp_path / "server") as api:
        example = await start(language, api, repository(tmp_path / "repo"), TOKEN="wrong")
        said, wrong = await ended(example)
    assert example.returncode != 0
    assert "401" in said + wrong


@pytest.mark.parametrize("language", FOLLOWING)
async def test_an_example_goes_on_after_the_server_was_away(tmp_path: Path, language: str) -> None:
    repo = repository(tmp_path / "repo")
    gate = call("bash", command="until test -e go; do sleep 0.1; done", timeout_s=600)
    model = cassette(tmp_path / "c.json", [gate, SAYING, FINISH])
    async with serving(tmp_path / "server", model=model) as api:
        example = await start(language, api, repo)
        assert example.stdout
        said = ""
        async with asyncio.timeout(DEADLINE_S):
            while "tool_call bash" not in said:
                said += (await example.stdout.readline()).decode()
            api.server.closing = True
            while "closing" not in said:
                said += (await example.stdout.readline()).decode()
        api.server.closing = False
        (session,) = (await api.get(f"{V1}/sessions")).json()["items"]
        put = await api.put(f"{V1}/sessions/{session['id']}/files/go", content=b"")
        assert put.is_success, put.text
        rest, wrong = await ended(example)
    assert example.returncode == 0, wrong
    said += rest
    assert "closing the server is stopping" in said and "undefined" not in said
    assert [said.count(word) for word in ("cloning", "Cloning", "tool_call bash", "\ndone ")] == [0, 1, 1, 1]
