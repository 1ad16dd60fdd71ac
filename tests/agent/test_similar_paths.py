"""A path that does not exist gets similar paths and the next step."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.run_setups import open_tool_env

pytestmark = pytest.mark.anyio

FILES = {"src/app.py": b"pass\n", "src/lib/settings.py": b"", "docs/Readme.md": b"", "private/appl.py": b""}
NEXT = "shows what is there; glob '**/"


async def test_similar_paths_and_the_next_step_are_named(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        wrong_folder = await env.use("read_file", path="app.py")
        misspelt = await env.use("edit_file", path="src/lib/setings.py", edits=[{"old": "a", "new": "b"}])
        case = await env.use("read_file", path="/workspace/docs/README.md")
        nothing = await env.use("read_file", path="src/none/zzzzzz")
        searched = await env.use("grep", pattern="x", path="src/lob")
        listed = await env.use("list_directory", path="sr")
        patched = await env.use("apply_patch", patch="*** Begin Patch\n*** Delete File: ap.py\n*** End Patch")
    assert "'app.py' does not exist. Similar paths: src/app.py, private/appl.py." in wrong_folder.text
    assert "Similar paths: src/lib/settings.py. list_directory 'src/lib' shows" in misspelt.text
    assert "Similar paths: docs/Readme.md." in case.text
    assert nothing.text == (
        f"'src/none/zzzzzz' does not exist. list_directory 'src' {NEXT}zzzzzz*' searches everywhere."
    )
    assert "Similar paths: src/lib." in searched.text
    assert "Similar paths: src." in listed.text
    assert "Similar paths: src/app.py" in patched.text
    assert not any(each.ok for each in (wrong_folder, misspelt, case, nothing, searched, listed, patched))


async def test_a_hidden_path_is_not_named(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        env.context = replace(env.context, hides=lambda *_: lambda path: path.startswith("private"))
        missing = await env.use("read_file", path="appl.py")
        outside = await env.use("read_file", path="../../app.py")
        unknown = await env.use("bash_output", id="bg_9")
    assert "src/app.py" in missing.text and "private" not in missing.text
    assert "Similar" not in outside.text
    assert unknown.text == "There is no background command 'bg_9'. Known: none."


async def test_long_names_are_not_compared_for_ever(tmp_path: Path) -> None:
    files = {f"{number:04}{'a' * 240}": b"" for number in range(200)}
    async with open_tool_env(tmp_path, files) as env:
        missing = await env.use("read_file", path="a" * 255)
    assert "does not exist" in missing.text
