"""The examples of docs/code.md do what the page says, as they stand."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.api import serving
from tests.sessions.hosting import call, cassette, repository

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).resolve().parents[2] / "docs/code.md").read_text()
EXAMPLES = dict(re.findall(r"^```(bash|python|javascript)\n(.*?)^```$", PAGE, re.M | re.S))
RUN = {
    "bash": ["bash", "-c"],
    "python": [sys.executable, "-c"],
    "javascript": ["node", "--input-type=module", "-e"],
}
FIX = call("write_file", path="slug.py", content="def slug(text):\n    return text.lower()\n")
FINISH = call("finish", title="Slugs are lower case", summary="As they should be.")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("language", RUN)
async def test_an_example_of_the_page(tmp_path: Path, language: str) -> None:
    repo = repository(tmp_path / "repo")
    model = cassette(tmp_path / "c.json", [FIX, FINISH])
    async with serving(tmp_path / "server", model=model) as api:
        owner = await api.as_user("owner", "owner")
        environment = {
            "PATH": os.environ["PATH"],
            "HUTCH": str(owner.base_url).rstrip("/"),
            "TOKEN": owner.token,
            "REPO": str(repo),
        }
        ran = await asyncio.to_thread(
            subprocess.run,
            [*RUN[language], EXAMPLES[language]],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert ran.returncode == 0, ran.stderr
    assert "pull_request" in ran.stdout and "done" in ran.stdout
    assert "hutch/slugs-are-lower-case" in ran.stdout
