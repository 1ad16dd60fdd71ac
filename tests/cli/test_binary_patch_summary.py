"""Binary files in a patch are one line for readers, and complete for programs."""

import os
import subprocess
from pathlib import Path

from hutch.cli.render.binary_patch_summary import without_binary_content
from hutch.cli.render.terminal_line_layout import patch_lines, plain


def git(place: Path, *words: str) -> str:
    ran = subprocess.run(["git", *words], cwd=place, capture_output=True, check=True)
    return ran.stdout.decode()


def patch_of(place: Path) -> str:
    git(place, "init", "-q")
    (place / "old").write_bytes(b"\0" + os.urandom(5000))
    (place / "gone").write_bytes(b"\0" + os.urandom(700))
    (place / "text").write_text("one\n")
    git(place, "add", "-A")
    git(place, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
    (place / "gone").unlink()
    (place / "new file").write_bytes(b"\0" + os.urandom(3 << 20))
    (place / "old").write_bytes(b"\0" + os.urandom(6000))
    (place / "text").write_text("one\nGIT binary patch\nliteral 5\n")
    git(place, "add", "-A")
    return git(place, "diff", "--binary", "--cached")


def test_each_binary_file_is_one_line(tmp_path: Path) -> None:
    shown = without_binary_content(patch_of(tmp_path)).split("\n")
    assert shown[:3] == ["gone: binary, deleted", "new file: binary, 3.0 MiB, new", "old: binary, 5.9 KiB"]
    assert shown[3] == "diff --git a/text b/text"
    assert shown[-3:] == ["+GIT binary patch", "+literal 5", ""]
    assert [plain(line) for line in patch_lines("\n".join(shown))][:3] == shown[:3]


def test_a_binary_file_at_the_end_and_a_patch_that_was_cut(tmp_path: Path) -> None:
    patch = patch_of(tmp_path)
    until_new = patch[: patch.index("diff --git a/old")]
    assert without_binary_content(until_new) == "gone: binary, deleted\nnew file: binary, 3.0 MiB, new\n"
    assert without_binary_content(until_new[:20_000]).endswith("new file: binary, 3.0 MiB, new\n")
    assert without_binary_content("") == ""


def test_other_patches_stay_as_they_are(tmp_path: Path) -> None:
    patch = patch_of(tmp_path)
    text = patch[patch.index("diff --git a/text") :]
    assert without_binary_content(text) == text
