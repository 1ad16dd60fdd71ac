"""`hutch usage`: a table for people, JSON for programs, on the database itself."""

import json
from pathlib import Path

from tests.cli.project_with_failing_test import FIXES, Project


def test_usage_of_a_run(tmp_path: Path) -> None:
    project = Project(tmp_path)
    empty = project.hutch("usage")
    assert (empty.returncode, empty.stdout) == (0, "") and "There is no usage yet" in empty.stderr
    done = project.hutch("run", "Mend it.", "--model", project.cassette(*FIXES))
    assert done.returncode == 0, done.stderr
    shown = project.hutch("usage", "--by", "persona", "--json")
    assert shown.returncode == 0, shown.stderr
    total = json.loads(shown.stdout)
    assert (total["key"], total["runs"], total["turns"]) == ("engineer", 1, 2)
    assert total["tool_calls"] >= 2 and total["tool_errors"] == 0
    table = project.hutch("usage", "--by", "persona").stdout.splitlines()
    assert table[0].split()[:3] == ["persona", "runs", "turns"]
    assert table[1].split()[:3] == ["engineer", "1", "2"]
    wrong = project.hutch("usage", "--by", "moon")
    assert wrong.returncode != 0 and "--by 'moon' is not one of" in wrong.stderr
