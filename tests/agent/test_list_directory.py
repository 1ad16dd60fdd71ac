"""list_directory: a directory as a bounded tree."""

from dataclasses import replace
from pathlib import Path

import pytest

from hutch.agent.tools.list_directory import describe_size
from tests.agent.run_setups import open_tool_env

pytestmark = pytest.mark.anyio

FILES = {
    "README.md": b"x" * 1234,
    "src/app.py": b"pass\n",
    "src/deep/er/still/x.py": b"",
    "build/out.o": b"1",
    ".gitignore": b"build/\n",
    "private/key": b"k",
}


async def test_a_directory_is_shown_as_a_tree_with_sizes(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        await env.use("bash", command="ln -s src/app.py link; mkdir empty; mkfifo pipe")
        top = await env.use("list_directory")
        deep = await env.use("list_directory", path="/workspace/src", depth=4)
        empty = await env.use("list_directory", path="empty")
    assert top.text == (
        ".gitignore  7 B\nREADME.md  1.2 kB\nempty/\nlink -> src/app.py\npipe  (neither file nor directory)\n"
        "private/\n  key  1 B\nsrc/\n  app.py  5 B\n  deep/ …\n"
        "(Left out: 1 that .gitignore lists; pass include_ignored to see them.)"
    )
    assert deep.text == "app.py  5 B\ndeep/\n  er/\n    still/\n      x.py  0 B"
    assert empty.text == "(the directory is empty)"
    assert {"path": "src/app.py", "kind": "file", "size": 5} in top.data["entries"]


async def test_ignored_files_are_shown_when_asked_for_and_git_never(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        await env.use("bash", command="mkdir -p .git src/.git; touch .git/x")
        shown = await env.use("list_directory", include_ignored=True)
    assert "build/\n  out.o  1 B" in shown.text and ".git\n" not in shown.text and ".git/" not in shown.text


async def test_a_large_directory_does_not_hide_its_neighbours(tmp_path: Path) -> None:
    files = {f"a/{number:04}": b"" for number in range(500)} | {"b/x": b"", "c/y": b""}
    async with open_tool_env(tmp_path, files) as env:
        cut = await env.use("list_directory", limit=10)
        whole = await env.use("list_directory", limit=2000)
    assert "b/" in cut.text and "c/" in cut.text
    assert len(cut.data["entries"]) == 10 and cut.data["cut"]
    assert "  … more entries" in cut.text and "(Cut at 10 entries." in cut.text
    assert len(whole.data["entries"]) == 505 and not whole.data["cut"]


async def test_what_rules_and_settings_hide_is_not_listed(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        env.context = replace(
            env.context, ignore=("private",), hides=lambda *_: lambda path: path == "src/app.py"
        )
        shown = await env.use("list_directory", depth=8, include_ignored=True)
    assert "private" not in shown.text and "app.py" not in shown.text and "x.py" in shown.text


async def test_no_directory_outside_is_listed(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        await env.use("bash", command="ln -s / root; ln -s ../../.. up")
        for path in ("..", "/etc", "root", "up", "root/etc", "README.md", "\0"):
            result = await env.use("list_directory", path=path)
            assert not result.ok and "passwd" not in result.text, path


async def test_names_of_any_bytes_are_escaped(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a": b""}) as env:
        await env.use("bash", command="touch \"$(printf 'caf\\351')\"")
        shown = await env.use("list_directory")
    assert r"caf\xe9  0 B" in shown.text


async def test_sizes_have_up_to_three_digits() -> None:
    sizes = [0, 999, 1000, 9_949, 9_950, 999_499, 999_500, 5 * 10**13]
    assert [describe_size(size) for size in sizes] == [
        *("0 B", "999 B", "1.0 kB", "9.9 kB", "10 kB", "999 kB", "1.0 MB", "50 TB")
    ]
