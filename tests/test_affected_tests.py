"""Which tests a change can affect, in a small project with a real git repository."""

import subprocess
from pathlib import Path

import pytest

from scripts.affected_tests import Affected, UnknownChange, affected, changed_files

FILES = {
    "pyproject.toml": "",
    "README.md": "",
    "docs/jail.md": "",
    "docs/store.md": "",
    "samples/one.yaml": "",
    "src/hutch/__init__.py": "",
    "src/hutch/cli/__init__.py": "",
    "src/hutch/cli/console_script.py": "def main():\n    from hutch.cli.commands import TABLE",
    "src/hutch/cli/commands.py": "TABLE = ['hutch.cli.shell:app']",
    "src/hutch/cli/shell.py": "from hutch.jail import open_jail",
    "src/hutch/jail/__init__.py": "from hutch.jail.policy import Policy",
    "src/hutch/jail/policy.py": "",
    "src/hutch/llm/__init__.py": "",
    "src/hutch/llm/model_factory.py": "load = lambda name: __import__(f'hutch.llm.{name}')",
    "src/hutch/llm/gemini.py": "",
    "src/hutch/llm/prices.json": "",
    "src/hutch/store/__init__.py": "",
    "src/hutch/store/log.py": "",
    "src/hutch/store/migrations/first.py": "",
    "scripts/table.py": "PAGE = 'docs/jail.md'",
    "tests/jail/conftest.py": "from .walls import wall",
    "tests/jail/walls.py": "",
    "tests/jail/test_policy.py": "from hutch.jail.policy import Policy",
    "tests/jail/test_table.py": "SCRIPT = 'table.py'",
    "tests/jail/data/one.txt": "",
    "tests/llm/test_model_factory.py": "from hutch.llm.model_factory import load",
    "tests/store/test_log.py": "import hutch.store.log",
    "tests/store/killed.py": "import hutch.store.log",
    "tests/store/test_kills.py": "WORDS = ['python', '-m', 'tests.store.killed']",
    "tests/store/test_script.py": "PROGRAM = 'import sys; from hutch.store import log; log.go()'",
    "tests/cli/test_shell.py": "HUTCH = 'bin/hutch'",
    "tests/house/test_pages.py": "PAGES = 'docs'",
    "tests/test_samples.py": "PLACE = 'samples'",
}
RULES = {"tests/house/test_pages.py"}
ALL = sorted(name for name in FILES if Path(name).name.startswith("test_"))


def git(root: Path, *words: str) -> None:
    names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "-C", str(root), *names, *words], check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def change(root: Path, name: str) -> Affected:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("# changed\n")
    assert changed_files(root) == [name]
    return affected(root, [name])


@pytest.mark.parametrize(
    ("name", "tests"),
    [
        ("src/hutch/jail/policy.py", {"jail/test_policy.py", "cli/test_shell.py"}),  # as hutch loads it
        ("src/hutch/cli/shell.py", {"cli/test_shell.py"}),  # by its name in the table
        ("src/hutch/llm/gemini.py", {"llm/test_model_factory.py"}),  # by a name that is put together
        ("src/hutch/llm/prices.json", {"llm/test_model_factory.py"}),
        ("src/hutch/store/log.py", {f"store/test_{name}.py" for name in ("log", "kills", "script")}),
        ("src/hutch/store/migrations/first.py", {f"store/test_{n}.py" for n in ("log", "kills", "script")}),
        ("tests/jail/walls.py", {"jail/test_policy.py", "jail/test_table.py"}),  # through conftest.py
        ("tests/jail/data/one.txt", {"jail/test_policy.py", "jail/test_table.py"}),
        ("tests/store/killed.py", {"store/test_kills.py"}),  # by -m
        ("tests/store/test_log.py", {"store/test_log.py"}),
        ("tests/store/test_new.py", {"store/test_new.py"}),  # untracked
        ("scripts/table.py", {"jail/test_table.py"}),
        ("docs/jail.md", {"jail/test_table.py"}),
        ("docs/store.md", set()),
        ("README.md", set()),
        ("samples/one.yaml", {"test_samples.py"}),
    ],
)
def test_a_change_affects_what_depends_on_it(root: Path, name: str, tests: set[str]) -> None:
    assert set(change(root, name).tests) == {f"tests/{each}" for each in tests} | RULES


@pytest.mark.parametrize("name", ["pyproject.toml", "uv.lock", "tests/conftest.py", "src/hutch/__init__.py"])
def test_what_could_affect_anything_affects_all(root: Path, name: str) -> None:
    loads_hutch = {each for each in ALL if "hutch" in FILES[each] or "killed" in FILES[each]}
    expected = loads_hutch | RULES if name.startswith("src/") else set(ALL)
    assert set(change(root, name).tests) == expected


def test_a_deleted_module_affects_all_tests_and_a_deleted_test_only_the_house_rules(root: Path) -> None:
    (root / "tests/store/test_log.py").unlink()
    assert set(affected(root, changed_files(root)).tests) == RULES
    (root / "tests/jail/walls.py").unlink()
    assert affected(root, changed_files(root)).tests == [
        name for name in ALL if name != "tests/store/test_log.py"
    ]


def test_changes_are_those_since_the_branch_left_main(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "work")
    (root / "docs/jail.md").write_text("committed\n")
    git(root, "commit", "-q", "-am", "second")
    git(root, "checkout", "-q", "main")
    (root / "docs/store.md").write_text("by somebody else\n")
    git(root, "commit", "-q", "-am", "third")
    git(root, "checkout", "-q", "work")
    (root / "README.md").write_text("uncommitted\n")
    (root / "samples/ein neues.yaml").write_text("untracked\n")
    assert changed_files(root) == ["README.md", "docs/jail.md", "samples/ein neues.yaml"]


def test_a_change_that_is_none_affects_nothing(root: Path) -> None:
    assert affected(root, changed_files(root)) == Affected([], [])


def test_a_branch_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(UnknownChange, match="no common commit with 'trunk'"):
        changed_files(root, "trunk")


def test_the_reason_has_counts(root: Path) -> None:
    assert change(root, "src/hutch/jail/policy.py").why == [
        "src/hutch/jail/policy.py: 2 test modules",
        "tests/house/: 1, because they read every file",
    ]
