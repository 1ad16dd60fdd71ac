"""Toolchains are found in named directories, on the machine, or in packages; what is missing is said."""

from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.domain.given_code_test_case import LANGUAGES
from hutch.flows.code_execution.language_toolchains import (
    LanguageToolchains,
    MissingToolchain,
    find_language_toolchains,
    missing_toolchains,
)
from hutch.flows.doctor_checks.code_execution_languages import check_languages


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_all_languages_can_be_run_here() -> None:
    found = find_language_toolchains()
    assert (tuple(found.found), found.missing) == (LANGUAGES, ())
    assert found.get("python").shown == ()  # every jail has /usr
    assert missing_toolchains() == []


def test_a_named_directory_comes_first_if_it_is_new_enough(tmp_path: Path) -> None:
    node = program(tmp_path / "new/bin/node", "echo v99.1.0")
    program(tmp_path / "old/bin/node", "echo v18.0.0")
    program(tmp_path / "broken/bin/node", "exit 1")
    found = find_language_toolchains([str(tmp_path / name) for name in ("broken", "old", "new")])
    chosen = found.get("typescript")
    assert (chosen.program, chosen.version, chosen.shown) == (str(node), "99.1.0", (tmp_path / "new",))


def test_a_go_of_a_named_directory_needs_its_sources(tmp_path: Path) -> None:
    program(tmp_path / "go/bin/go", "exit 0")
    (tmp_path / "go/VERSION").write_text("go1.99.3\ntime 2026\n")
    assert find_language_toolchains([str(tmp_path / "go")]).get("go").version != "1.99.3"
    (tmp_path / "go/src/runtime").mkdir(parents=True)
    found = find_language_toolchains([str(tmp_path / "go")]).get("go")
    assert (found.version, found.variables) == ("1.99.3", {"GOROOT": str(tmp_path / "go")})


def test_the_doctor_names_every_language() -> None:
    check = check_languages(())
    assert check.status == "ok" and "TypeScript (" in check.found and "Go (" in check.found


def test_a_missing_toolchain_is_named_with_the_remedy() -> None:
    missing = MissingToolchain("go", "none is installed", "Install Go.")
    found = LanguageToolchains({}, (missing,))
    with pytest.raises(Unavailable, match=r"^Go cannot be run: none is installed. Install Go.$"):
        found.get("go")
