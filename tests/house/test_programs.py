"""Every program that tests start is installed by system-packages.txt, not by chance.

A program that a developer's machine happens to have is missing on a bare one. This looks for such programs
in the commands that tests name, among those of packages that no list asks for. `make fresh` then tries it.
"""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

DPKG = Path("/var/lib/dpkg/info")
# In a bare root (scripts/fresh), besides essential and required packages.
BARE = ("apt", "make", "ca-certificates")
FOLDERS = ("tests", "bench", "scripts")
# Words and commands that are read but never started.
NOT_STARTED = {
    *(
        "apparmor_parser",
        "as",
        "file",
        "ld",
        "loginctl",
        "node",
        "npm",
        "npx",
        "pip",
        "red",
        "size",
        "strings",
        "systemd-run",
    ),
    *("time", "zip"),
}
# A word where a shell expects a program, and something after it.
PROGRAM = re.compile(
    r"(?:^|[;|&\n(`])\s*(?:(?:do|then|else|exec|xargs|env|nohup|timeout \S+)\s+)*"
    r"(?:[\w./-]*/)?([\w.+-]+)(?=[ \t]+\S|[;|&)<>])"
)

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-query"), reason="not a Debian or Ubuntu machine")


def names(field: str) -> set[str]:
    """The packages in a field such as `Depends`, all alternatives included."""
    return {re.split("[ :(]", each.strip())[0] for each in re.split("[,|]", field) if each.strip()}


def bare_packages(listed: set[str]) -> set[str]:
    """The installed packages of a bare machine on which these were installed."""
    fields = "${Package}\t${Essential} ${Priority}\t${Depends},${Pre-Depends}\t${Provides}\n"
    shown = subprocess.run(["dpkg-query", "-W", "-f", fields], capture_output=True, text=True, check=True)
    depends: dict[str, set[str]] = {}
    providers: dict[str, set[str]] = {}
    pending = listed | set(BARE)
    for line in shown.stdout.splitlines():
        name, rank, needed, provided = line.split("\t")
        depends[name] = names(needed)
        for each in names(provided) | {name}:
            providers.setdefault(each, set()).add(name)
        if rank.startswith("yes") or rank.endswith("required"):
            pending.add(name)
    found: set[str] = set()
    while pending:
        for name in providers.get(pending.pop(), set()) - found:
            found.add(name)
            pending |= depends[name]
    return found


def unlisted_programs(listed: set[str]) -> dict[str, set[str]]:
    """The programs of this machine that a bare one lacks, each with its packages."""
    owners: dict[str, set[str]] = {}
    for path in DPKG.glob("*.list"):
        for program in re.findall(r"^(?:/usr)?/s?bin/([^/\n]+)$", path.read_text(), re.M):
            owners.setdefault(program, set()).add(path.stem.partition(":")[0])
    installed = bare_packages(listed)
    return {program: packages for program, packages in owners.items() if not packages & installed}


def named_programs(text: str) -> Iterator[tuple[int, str]]:
    """Each line with a word of a string that may be a program."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, word) for word in PROGRAM.findall(node.value))
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.List):
            match node.args[0].elts:
                case [ast.Constant(value=str(word)), *_]:
                    yield node.lineno, word.rpartition("/")[2]


def listed_packages(root: Path) -> set[str]:
    lines = (root / "system-packages.txt").read_text().splitlines()
    return {line.split()[0] for line in lines if line and not line.startswith("#")}


@pytest.fixture(scope="module")
def words(root: Path) -> list[tuple[str, str]]:
    """Each word of the tests that may be a program, and where it is."""
    return [
        (f"{path.relative_to(root)}:{line}", word)
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
        for line, word in named_programs(path.read_text())
        if word not in NOT_STARTED
    ]


def test_a_list_names_the_package_of_every_program_that_tests_start(
    root: Path, words: list[tuple[str, str]]
) -> None:
    unlisted = unlisted_programs(listed_packages(root))
    found = [f"{where}: {word} is of {unlisted[word]}" for where, word in words if word in unlisted]
    assert found == [], "add the package to system-packages.txt, or the word to NOT_STARTED"


def test_a_program_that_no_list_names_is_found(root: Path, words: list[tuple[str, str]]) -> None:
    unlisted = unlisted_programs(listed_packages(root) - {"less"})
    found = {where.partition(":")[0] for where, word in words if word == "less" and word in unlisted}
    assert "tests/sessions/test_file_change_recorder.py" in found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("run('less f')", ["less"]),
        ("run(['/usr/bin/less', 'f'])", ["less"]),
        ("run('cd d && (less f)')", ["cd", "less"]),
        ("run('for i in 1; do less f; done')", ["for", "less"]),
        ("x = {'less': 1}", []),
    ],
)
def test_commands_are_read_as_a_shell_reads_them(source: str, found: list[str]) -> None:
    assert [word for _, word in named_programs(source)] == found
