"""Code search: how fast the index is built, updated and asked, and how many of the right files it finds.

Recall is the share of the right files among the first ten; if more than ten are right, of ten of them.
Queries are subjects of commits, with the files that each commit changed, and entries of a changelog,
with the files that differ between two source packages.

The alternative is grep, twice. The weaker one is `grep -il` for each word of the query except common
ones: files with more of the words first, those with equally many in grep's order, by path. The stronger
one also counts, as `grep -io WORD FILE` does: of files with equally many words, those with more matches
come first. It is what a careful agent can do with a command for each word.

The weights of the ranking were chosen with one half of these labels, and the other half, in
`is_held_out`, was only measured. Halves are by the hash of a commit's subject or of a project's name.
"""

import asyncio
import hashlib
import json
import re
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from bench.claim_workspace_preparation import GIT
from bench.result_row import Row

from hutch.agent.repository_map_note import MAX_MATCHES
from hutch.domain.user_given_starter_files import StarterFile
from hutch.workspace.code_search.ranked_matches import CodeQuery
from hutch.workspace.code_search.search_words import is_common
from hutch.workspace.code_search.workspace_code_search import map_repository, search_code
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.mounted_workspace_opening import open_mounted

ROOT = Path(__file__).parents[1]
DATA = Path(__file__).parent / "data"
# Entries of changelogs: of projects with 500 to 2,000 files, of projects with up to 300, and of 46 projects
# of any size, whose labels were made before their results were known.
LARGE, SMALL, MORE = (
    DATA / name for name in ("release_labels.json", "changelog_labels.json", "more_changelog_labels.json")
)
LEFT_OUT = re.compile(
    r"PKG-INFO|docs/html/news.*|.*\.egg-info/.*|.*\.po|(.*/)?(?i:changelog|changes|news|newsfragments)(\.d)?/.*"
    r"|(.*/)?(?i:CHANGES|NEWS|CHANGELOG|HISTORY|VERSIONHISTORY)(\.(rst|md|txt))?"
)
PACKAGES = Path(tempfile.gettempdir()) / "hutch-bench-packages"
MAP_CHARS = 4_000
FILES, FOUND = 5_000, 10
WINDOWS, COMMITS = 3, 300  # each window of commits is searched in the tree before it
MAX_CHANGED = 10  # of a commit: a larger one is about no place
QUERIES = (
    "where is a request retried",
    "SessionRecorder",
    "parse settings of a repository",
    "close the jail",
)


# Files that change with anything, whatever a commit is about; in neither corpus nor labels.
BOOKKEEPING = frozenset(
    (
        *(
            "CHANGELOG.md",
            "uv.lock",
            "docs/cli.md",
            "docs/openapi.json",
            "docs/settings.md",
            "docs/attacks.md",
        ),
        *("docs/ARCHITECTURE.md", "web/src/api/schema.ts", "src/hutch/gateway/mcp/tool_list.json"),
        *("tests/pure.txt", "tests/attacks/controls.sha256"),
    )
)


class Label(NamedTuple):
    """A query, and the files that it should find."""

    query: str
    files: frozenset[str]


class Result(NamedTuple):
    """How good the files are that a query found."""

    recall: float  # of the first ten
    is_first_right: bool


class Compared(NamedTuple):
    """The results for one query; whether a map, and a list of paths, names a right file."""

    is_held_out: bool
    ours: Result
    grep: Result
    counting_grep: Result
    is_mapped: bool
    is_listed: bool


def measure() -> Iterator[Row]:
    files = tracked_files("HEAD")
    with tempfile.TemporaryDirectory() as place:
        yield from asyncio.run(speed(Path(place), files))
    yield from rows("commits of this repository", list(commit_results()))
    large, small, more = (list(changelog_results(labels)) for labels in (LARGE, SMALL, MORE))
    yield from rows("entries of projects with 500 to 2,000 files", large)
    yield from rows("entries of projects with up to 300 files", small)
    yield from rows("entries of both", large + small)
    yield from rows("entries of 46 more projects", more)
    yield from rows("entries of all changelogs", large + small + more)


def is_held_out(name: str) -> bool:
    """True for labels that the weights of the ranking were not chosen with."""
    return hashlib.sha256(name.encode()).digest()[-1] % 2 == 1


async def speed(place: Path, files: Mapping[str, bytes]) -> list[Row]:
    home = Home(place / "data")
    many = dict(islice(copies(files), FILES))
    await prepare(home, "w", {path: StarterFile(data) for path, data in many.items()}, git=GIT)
    async with open_mounted(home, await open_workspace(home, "w"), home.workspace("w"), GIT) as workspace:
        began = time.perf_counter()
        await search_code(workspace, CodeQuery(text=QUERIES[0]))
        built_s = time.perf_counter() - began
        updates, queries = [], []
        path = next(path for path in many if path.endswith(".py"))
        for number in range(9):
            workspace.files.write(path, many[path] + f"\ndef added_{number}(): pass\n".encode())
            began = time.perf_counter()
            found = await search_code(workspace, CodeQuery(text=f"added_{number}"))
            updates.append((time.perf_counter() - began) * 1000)
            assert found.matches[0].path == path
        for query in QUERIES * 5:
            began = time.perf_counter()
            await search_code(workspace, CodeQuery(text=query))
            queries.append((time.perf_counter() - began) * 1000)
    size = sum(map(len, many.values())) / 1e6
    return [
        Row(f"code index of {FILES:,} files ({size:.0f} MB) built", built_s, None, "s", 15),
        Row("the same, search right after an edit", statistics.median(updates), None, "ms", 200),
        Row("the same, search", statistics.median(queries), None, "ms", 50),
    ]


def copies(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The files again and again, each copy with a content of its own."""
    for number in count():
        for path, data in files.items():
            if Path(path).suffix in (".py", ".ts", ".tsx", ".md"):
                yield f"copy{number}/{path}", data + f"\n\n# copy {number}\n".encode()


def rows(name: str, results: Sequence[Compared]) -> Iterator[Row]:
    held_out = [each for each in results if each.is_held_out]
    for kind, chosen in (("", results), (", held out", held_out)):
        if not chosen:
            continue
        title = f"{len(chosen)} {name}{kind}"
        ours = [each.ours for each in chosen]
        for alternative, theirs in (
            ("grep", [each.grep for each in chosen]),
            ("grep that counts", [each.counting_grep for each in chosen]),
        ):
            yield Row(
                f"recall@10, {title}", recall(ours), recall(theirs), "", 1.5, alternative, at_least=True
            )
        yield Row(
            f"first file right, {title}",
            statistics.mean(each.is_first_right for each in ours),
            statistics.mean(each.counting_grep.is_first_right for each in chosen),
            "",
            1.5,
            "grep that counts",
            at_least=True,
        )
    yield Row(
        f"a right file in the map of {MAP_CHARS:,} characters, {len(results)} {name}",
        statistics.mean(each.is_mapped for each in results),
        statistics.mean(each.is_listed for each in results),
        "",
        1.5,
        "as many characters of paths",
        at_least=True,
    )


def recall(results: Sequence[Result]) -> float:
    return statistics.mean(each.recall for each in results)


def compare(
    files: Mapping[str, bytes], labels: Sequence[Label], project: str | None = None
) -> Iterator[Compared]:
    with tempfile.TemporaryDirectory() as place:
        found, maps = asyncio.run(search_all(Path(place), files, [label.query for label in labels]))
    texts = {path: data.decode("utf-8", "replace").lower() for path, data in files.items()}
    listing = "\n".join(sorted(files))[:MAP_CHARS].splitlines()
    for label, paths, text in zip(labels, found, maps, strict=True):
        yield Compared(
            is_held_out(project or label.query),
            result(label, paths),
            result(label, grep(texts, label.query)),
            result(label, grep(texts, label.query, counts=True)),
            any(line.startswith(tuple(label.files)) for line in text.splitlines()),
            not label.files.isdisjoint(listing),
        )


def result(label: Label, paths: Sequence[str]) -> Result:
    found = len(label.files & set(paths)) / min(FOUND, len(label.files))
    return Result(found, paths[0] in label.files if paths else False)


async def search_all(
    place: Path, files: Mapping[str, bytes], queries: Sequence[str]
) -> tuple[list[list[str]], list[str]]:
    """The paths that code search finds for each query, and the map for it."""
    home = Home(place / "data")
    await prepare(home, "w", {path: StarterFile(data) for path, data in files.items()}, git=GIT)
    async with open_mounted(home, await open_workspace(home, "w"), home.workspace("w"), GIT) as workspace:
        found = [await search_code(workspace, CodeQuery(text=query, limit=FOUND)) for query in queries]
        tasks = [CodeQuery(text=query, limit=MAX_MATCHES) for query in queries]
        maps = [await map_repository(workspace, task, MAP_CHARS) for task in tasks]
    return [[match.path for match in each.matches] for each in found], maps


def grep(texts: Mapping[str, str], query: str, *, counts: bool = False) -> list[str]:
    """The files with most words of the query; of those with equally many, by path or by number of matches."""
    words = {word.lower() for word in re.findall(r"\w+", query) if not is_common(word)}
    found = []
    for path, text in texts.items():
        matched = [word for word in words if word in text]
        if matched:
            matches = sum(text.count(word) for word in matched) if counts else 0
            found.append((-len(matched), -matches, path))
    return [path for *_, path in sorted(found)[:FOUND]]


def commit_results() -> Iterator[Compared]:
    """The results for the newest commits, each searched in a tree from before them."""
    for start in range(0, WINDOWS * COMMITS, COMMITS):
        last = f"HEAD~{start}"
        first = git("rev-parse", f"{last}~{COMMITS}").strip()
        files = {path: data for path, data in tracked_files(first).items() if path not in BOOKKEEPING}
        yield from compare(files, commit_labels(first, last, files))


def commit_labels(first: str, last: str, files: Mapping[str, bytes]) -> list[Label]:
    """The subjects of commits, with the files that they changed."""
    log = git("log", "--no-merges", "--name-only", "--diff-filter=MD", "--format=%x00%s", f"{first}..{last}")
    labels = []
    for commit in log.split("\0")[1:]:
        subject, *changed = commit.strip().splitlines()
        known = frozenset(changed) & files.keys()
        if 0 < len(known) <= MAX_CHANGED:
            labels.append(Label(subject, frozenset(known)))
    return labels


def changelog_results(labels: Path) -> Iterator[Compared]:
    """The results for each version of the labelled changelogs; their packages are downloaded once."""
    PACKAGES.mkdir(exist_ok=True)
    for version in json.loads(labels.read_text()):
        package = PACKAGES / f"{version['package']}-{version['version']}.tar.gz"
        if not package.exists():
            name = f"{version['package']}=={version['version']}"
            command = [
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--no-binary",
                ":all:",
                "-d",
                str(PACKAGES),
                name,
            ]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        files = package_files(package)
        right = frozenset(version["files"]) & files.keys()
        if right:
            labels_of_release = [Label(entry, right) for entry in version["entries"]]
            yield from compare(files, labels_of_release, version["package"])


def package_files(package: Path) -> dict[str, bytes]:
    """The files of a source package, without its changelog, which names the work."""
    files = {}
    with tarfile.open(package) as archive:
        for member in archive:
            path = member.name.partition("/")[2]
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None and not LEFT_OUT.fullmatch(path):
                files[path] = content.read()
    return files


def tracked_files(commit: str) -> dict[str, bytes]:
    """The files of a commit of this repository."""
    command = ["git", "-C", str(ROOT), "archive", commit]
    with tempfile.TemporaryFile() as file:
        subprocess.run(command, stdout=file, check=True)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            members = ((member.name, archive.extractfile(member)) for member in archive if member.isfile())
            return {name: content.read() for name, content in members if content is not None}


def git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True).stdout
