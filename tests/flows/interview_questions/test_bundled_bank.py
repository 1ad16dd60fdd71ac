"""The questions of the source tree are packed where an installed Hutch looks for them."""

import tomllib
from pathlib import Path

import hutch
from hutch.flows.interview_questions.bank_directories import bundled_bank


def test_the_wheel_has_the_questions_where_they_are_looked_for() -> None:
    root = Path(hutch.__file__).parents[2]
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"questions": "hutch/bundled_questions"}
    assert bundled_bank() == root / "questions"  # in the source tree there is no packed copy


def test_a_packed_bank_comes_before_the_source_tree(tmp_path: Path) -> None:
    package = tmp_path / "src/hutch"
    (package / "bundled_questions").mkdir(parents=True)
    assert bundled_bank(package) == package / "bundled_questions"
    (package / "bundled_questions").rmdir()
    assert bundled_bank(package) == tmp_path / "questions"
