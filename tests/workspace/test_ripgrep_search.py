"""grep and glob: ripgrep inside the jail, with answers that say how much there is."""

import os
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Denied, LimitReached, NotFound
from hutch.jail.interface import Jail
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import AGENT
from hutch.workspace import ripgrep_search
from hutch.workspace.ripgrep_search import GlobResult, GrepQuery, GrepResult, glob, grep
from hutch.workspace.search_match_redaction import Line

pytestmark = pytest.mark.anyio


@pytest.fixture
def tree() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    for name, text in {
        "src/main.py": "import os\n\ndef main():\n    return os.name\n",
        "src/deep/er/util.py": "def helper():\n    return 1\n",
        "src/page.tsx": "export const main = 1\r\nconst other = 2\r\n",
        "README.md": "# main\n",
        ".github/ci.yml": "run: main\n",
        ".git/config": "main\n",
        "build/out.py": "def main(): pass\n",
        "skipped.min.py": "main\n",
        ".gitignore": "build/\n*.min.py\n",
        "odd\nname": "main\n",
    }.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(text.encode())
    (directory / "binary").write_bytes(b"main\n" + b"x" * 100_000 + b"\0main\n")
    return directory


@pytest.fixture
async def jail(tree: Path) -> AsyncIterator[Jail]:
    async with open_jail(tree) as opened:
        yield opened
    shutil.rmtree(tree)


def modified_ns(tree: Path) -> ripgrep_search.Callable[[str], int]:
    return lambda path: os.lstat(tree / path).st_mtime_ns


async def test_lines_come_in_order_and_ignored_files_do_not(jail: Jail) -> None:
    assert await grep(jail, GrepQuery(pattern=r"\bmain\b")) == GrepResult(
        lines=[
            Line(".github/ci.yml", 1, "run: main", True),
            Line("README.md", 1, "# main", True),
            Line("binary", 1, "main", True),  # up to where it turns out to be one
            Line("odd\nname", 1, "main", True),
            Line("src/main.py", 3, "def main():", True),
            Line("src/page.tsx", 1, "export const main = 1", True),
        ],
        total=6,
    )


async def test_context_belongs_to_its_match(jail: Jail) -> None:
    found = await grep(jail, GrepQuery(pattern="def main", path="src", context=1))
    assert [(line.number, line.matched) for line in found.lines] == [(2, False), (3, True), (4, False)]


async def test_a_truncated_answer_has_the_total(jail: Jail, tree: Path) -> None:
    (tree / "many").write_text("needle\n" * 500_000)  # more than is kept in memory
    found = await grep(jail, GrepQuery(pattern="needle", limit=3))
    assert [line.number for line in found.lines] == [1, 2, 3]
    assert (found.total, found.cut) == (500_000, True)


async def test_files_and_counts(jail: Jail) -> None:
    assert await grep(jail, GrepQuery(pattern="main", glob="*.{py,md}", output="files")) == GrepResult(
        paths=["README.md", "skipped.min.py", "src/main.py"], total=3
    )
    assert await grep(
        jail, GrepQuery(pattern="return|def", path="src", output="count", limit=1)
    ) == GrepResult(counts={"src/deep/er/util.py": 2}, total=4, cut=True, next=1)


async def test_both_cases_and_matches_over_lines(jail: Jail) -> None:
    assert (await grep(jail, GrepQuery(pattern="MAIN", path="README.md"))).total == 0
    assert (await grep(jail, GrepQuery(pattern="MAIN", path="README.md", ignore_case=True))).total == 1
    found = await grep(jail, GrepQuery(pattern=r"main\(\):.*name", path="src/main.py", multiline=True))
    assert [line.number for line in found.lines] == [3, 4]


async def test_a_path_as_commands_see_it_is_understood(jail: Jail) -> None:
    found = await grep(jail, GrepQuery(pattern="def main", path=f"{jail.workspace}/src"))
    assert [line.path for line in found.lines] == ["src/main.py"]


async def test_look_around_works(jail: Jail) -> None:
    assert (await grep(jail, GrepQuery(pattern=r"(?<=def )main(?=\()"))).total == 1


async def test_a_very_long_line_is_cut(jail: Jail, tree: Path) -> None:
    (tree / "long.js").write_text("x" * 3_000_000 + "needle\n")
    [line] = (await grep(jail, GrepQuery(pattern="needle"))).lines
    assert len(line.text) < 6000


@pytest.mark.parametrize(
    ("wanted", "kind", "words"),
    [
        (GrepQuery(pattern="main("), BadRequest, "unclosed group"),
        (GrepQuery(pattern="x", path="nowhere"), NotFound, "'nowhere' does not exist"),
        (GrepQuery(pattern="x", path="../etc"), BadRequest, "leads out of the workspace"),
        (GrepQuery(pattern="x", path="/etc"), BadRequest, "leads out of the workspace"),
        (GrepQuery(pattern="x", limit=0), BadRequest, "at least 1"),
        (GrepQuery(pattern="x", context=-1), BadRequest, "between 0 and"),
    ],
)
async def test_an_invalid_search_is_refused_with_a_reason(
    jail: Jail, wanted: GrepQuery, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        await grep(jail, wanted)


async def test_words_of_a_pattern_are_never_options(jail: Jail) -> None:
    assert (await grep(jail, GrepQuery(pattern="--files"))).total == 0
    assert (await grep(jail, GrepQuery(pattern="main", path="README.md", glob="--pre=sh"))).total <= 1


async def test_a_pattern_that_takes_for_ever_is_stopped(tree: Path) -> None:
    (tree / "bomb").write_text("a" * 40 + "b\n")
    policy = replace(AGENT, limits=replace(AGENT.limits, command_timeout_s=1))
    (tree / "slow").symlink_to("/dev/zero")
    os.mkfifo(tree / "fifo")
    async with open_jail(tree, policy) as jail:
        with pytest.raises(LimitReached, match="narrower path"):
            await grep(jail, GrepQuery(pattern="x", path="fifo"))
    shutil.rmtree(tree)


async def test_globs_come_newest_first_without_what_is_ignored(jail: Jail, tree: Path) -> None:
    os.utime(tree / "src/deep/er/util.py", ns=(1, 2**61))
    found = await glob(jail, "**/*.py", modified_ns=modified_ns(tree))
    assert found == GlobResult(["src/deep/er/util.py", "src/main.py"], 2, False)
    found = await glob(jail, "*.py", path="src", limit=1, modified_ns=modified_ns(tree))
    assert found == GlobResult(["src/deep/er/util.py"], 2, True, 1)
    found = await glob(jail, "deep/**", path="src", modified_ns=modified_ns(tree))
    assert found.paths == ["src/deep/er/util.py"]


async def test_patterns_of_the_settings_hide_files(jail: Jail, tree: Path) -> None:
    found = await glob(jail, "*.md", modified_ns=modified_ns(tree), ignore=["README.md", "!src"])
    assert found.paths == []
    assert (await grep(jail, GrepQuery(pattern="# main"), ignore=["*.md"])).total == 0


OUTSIDE = """
mkdir /tmp/outside; echo "main SECRET" > /tmp/outside/main.py
ln -s /tmp/outside swapped; ln -s /tmp/outside/main.py swapped.py
"""
SWAP = """
import os
os.mkdir("moving")
open("moving/main.py", "w").write("main\\n")
while True:
    os.rename("moving", "put-by"), os.rename("swapped", "moving")
    os.rename("moving", "swapped"), os.rename("put-by", "moving")
"""


@pytest.mark.parametrize("path", ["swapped", "swapped.py", "swapped/main.py"])
async def test_a_link_that_was_swapped_in_after_the_check_leads_nowhere(jail: Jail, path: str) -> None:
    made = await jail.run(["sh", "-c", OUTSIDE])
    assert made.exit_code == 0, made.stderr
    with pytest.raises(Denied, match="leads out of the workspace"):
        await grep(jail, GrepQuery(pattern="SECRET", path=path))


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", "/tmp", "/usr/share", "/"])
async def test_no_link_leads_out_of_the_workspace(jail: Jail, path: str) -> None:
    await jail.run(["ln", "-s", path, "swapped"])
    with pytest.raises(Denied, match="leads out of the workspace"):
        await grep(jail, GrepQuery(pattern=".", path="swapped"))


@pytest.mark.parametrize("path", ["/tmp", "/usr/share", "/"])
async def test_no_link_leads_a_glob_out_of_the_workspace(jail: Jail, path: str) -> None:
    await jail.run(["ln", "-s", path, "swapped"])
    with pytest.raises(Denied, match="leads out of the workspace"):
        await glob(jail, "**", path="swapped", modified_ns=lambda name: 0)


async def test_links_that_are_swapped_while_it_searches_lead_nowhere(jail: Jail, tree: Path) -> None:
    """Without Landlock every fifth search of `moving` reads the file outside, and a few of all."""
    await jail.run(["sh", "-c", OUTSIDE])
    for number in range(200):  # some work for the walk, so that there is time between a look and a use
        (tree / f"d{number}").mkdir()
    swapping = await jail.spawn(["python3", "-c", SWAP])
    texts = []
    for _ in range(20):
        texts += [line.text for line in (await grep(jail, GrepQuery(pattern="main"))).lines]
        with suppress(NotFound, Denied):  # for a moment there is nothing, or the link
            texts += [
                line.text for line in (await grep(jail, GrepQuery(pattern="main", path="moving"))).lines
            ]
    await swapping.kill()
    assert "main" in texts and not [text for text in texts if "SECRET" in text]


@pytest.mark.parametrize("output", ["content", "files", "count", "glob"])
async def test_what_was_found_is_read_off_the_event_loop(jail: Jail, tree: Path, output: str) -> None:
    threads = set()

    def hidden(path: str) -> bool:  # asked of every file while the answer is put together
        threads.add(threading.current_thread())
        return False

    if output == "glob":
        found = await glob(jail, "**/*.py", modified_ns=modified_ns(tree), hidden=hidden)
        assert found.total
    else:
        assert (await grep(jail, GrepQuery(pattern="main", output=output), hidden=hidden)).total  # type: ignore[arg-type]
    assert threads and threading.current_thread() not in threads


def without_keys(data: bytes) -> bytes:
    return data.replace(b"return", b"******")


async def test_with_a_mask_only_lines_without_secrets_match(jail: Jail) -> None:
    found = await grep(jail, GrepQuery(pattern="def|return", path="src", context=1), mask=without_keys)
    assert found == GrepResult(
        lines=[
            Line("src/deep/er/util.py", 1, "def helper():", True),
            Line("src/deep/er/util.py", 2, "    return 1", False),  # redacted by name where it is shown
            Line("src/main.py", 2, "", False),
            Line("src/main.py", 3, "def main():", True),
            Line("src/main.py", 4, "    return os.name", False),
        ],
        total=2,
    )
    counted = await grep(jail, GrepQuery(pattern="def|return", path="src", output="count"), mask=without_keys)
    assert counted == GrepResult(counts={"src/deep/er/util.py": 1, "src/main.py": 1}, total=2)
    one = await grep(jail, GrepQuery(pattern="def", path="src", output="files", limit=1), mask=without_keys)
    assert one == GrepResult(paths=["src/deep/er/util.py"], total=2, cut=True, next=1)


async def test_with_a_mask_nothing_is_shown_whose_context_was_not_read(tree: Path, jail: Jail) -> None:
    (tree / "many").write_text("".join(f"{number} {'x' * 90}\n" for number in range(60_000)))
    found = await grep(jail, GrepQuery(pattern="x{90}", path="many", output="count"), mask=without_keys)
    whole = await grep(jail, GrepQuery(pattern="x{90}", path="many", limit=60_000))
    assert found.cut and found.total == found.counts["many"] == len(whole.lines) - 64
