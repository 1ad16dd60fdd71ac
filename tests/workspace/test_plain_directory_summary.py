"""The summary of a directory without git, shown before it is copied."""

import os
from pathlib import Path

import pytest

from hutch.domain.secret_file_names import has_secret_name
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.lifecycle.plain_directory_summary import DirectorySummary, summarize_directory


def test_files_are_counted_and_secrets_named(tmp_path: Path) -> None:
    (tmp_path / "a/.ssh").mkdir(parents=True)
    (tmp_path / "a/.ssh/id_rsa").write_text("x" * 100)
    (tmp_path / "a/main.py").write_text("x" * 20)
    (tmp_path / "out").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    with Directory.at(tmp_path) as directory:
        found = summarize_directory(directory)
    assert found == DirectorySummary(4, 100 + 20 + len("/etc"), ("a/.ssh/id_rsa",), cut=False)
    assert str(found) == "4 files, 124 bytes, including names typical of secrets: a/.ssh/id_rsa"


def test_a_directory_with_very_many_files_is_not_looked_at_whole(tmp_path: Path) -> None:
    for number in range(20_001):
        (tmp_path / str(number)).touch()
    with Directory.at(tmp_path) as directory:
        assert str(summarize_directory(directory)) == "more than 20,000 files, 0 bytes"


@pytest.mark.parametrize(
    "name",
    ["id_rsa", "ID_ED25519", ".env", ".env.production", "server.pem", "credentials", "shadow", ".netrc"],
)
def test_names_of_secrets(name: str) -> None:
    assert has_secret_name(name)


@pytest.mark.parametrize("name", ["id_rsa.pub", ".env.example", "main.py", "keys.md", "environment.py"])
def test_other_names(name: str) -> None:
    assert not has_secret_name(name)
