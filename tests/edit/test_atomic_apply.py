"""Edits and patches of files: applied completely, or refused without a change."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, Denied, NotFound
from hutch.edit.atomic_apply import apply_patch, edit_file
from hutch.edit.edit_result import EditedFile, EditResult
from hutch.edit.file_edits import Replace
from hutch.edit.file_operation_types import FileChange
from tests.edit.edited_files import EditedFiles, edited_files


@pytest.fixture
def files(tmp_path: Path) -> Iterator[EditedFiles]:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_bytes(b"def f():\r\n    return 1\r\n")
    (tmp_path / "b.txt").write_bytes(b"one\ntwo\nthree\n")
    (tmp_path / "run.sh").write_bytes(b"echo\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "x.bin").write_bytes(b"\x00\x01\x02")
    with edited_files(tmp_path) as opened:
        yield opened


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def envelope(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def test_an_edit_is_made_and_shown(files: EditedFiles) -> None:
    before = files.seen()["b.txt"]
    edited = edit_file(files, "b.txt", [{"old": "two", "new": "2"}])
    assert edited == EditResult(
        (
            EditedFile(
                "b.txt",
                "modified",
                "     1\tone\n     2\t2\n     3\tthree",
                "--- a/b.txt\n+++ b/b.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
            ),
        ),
        (FileChange("b.txt", "modified", digest(before), digest(b"one\n2\nthree\n")),),
    )
    assert edited.text == "Modified 'b.txt'.\n     1\tone\n     2\t2\n     3\tthree"
    assert files.seen()["b.txt"] == b"one\n2\nthree\n"


def test_the_result_has_notes_and_warnings(files: EditedFiles) -> None:
    edited = edit_file(files, "src/a.py", [Replace("def f():\n    return 1\n", "def f(:\n    return 1\n")])
    assert files.seen()["src/a.py"] == b"def f(:\r\n    return 1\r\n"
    assert edited.text == (
        "Modified 'src/a.py'. Matched with other line ends; the file's were kept.\n"
        "     1\tdef f(:\n     2\t    return 1\n"
        "Warning: 'src/a.py' no longer parses as Python, from line 1: def f(:."
    )


def test_an_edit_without_effect_is_reported_and_writes_nothing(files: EditedFiles) -> None:
    when = (files.root / "b.txt").stat().st_mtime_ns
    edited = edit_file(files, "b.txt", [Replace("zwei", "two")])
    assert edited.changes == ()
    assert edited.text.startswith("Nothing changed in 'b.txt'. Already applied:")
    assert (files.root / "b.txt").stat().st_mtime_ns == when


def test_the_mode_stays(files: EditedFiles) -> None:
    edit_file(files, "run.sh", [Replace("echo", "exec")])
    assert (files.root / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("path", "edits", "error", "words"),
    [
        ("none.txt", [Replace("a", "b")], NotFound, "none.txt"),
        ("x.bin", [Replace("a", "b")], BadRequest, "'x.bin' was not changed. The file is binary"),
        ("b.txt", [Replace("four", "4")], Conflict, "'b.txt' was not changed. 'old' is not in the file"),
        ("b.txt", [Replace("one", "1"), {"old": 1}], BadRequest, "'b.txt' was not changed. 'old' of an edit"),
        ("b.txt", [Replace("one", "\ud800")], BadRequest, "UTF-8, which cannot represent"),
    ],
)
def test_a_refused_edit_changes_nothing(
    files: EditedFiles, path: str, edits: list, error: type[Exception], words: str
) -> None:
    before = files.seen()
    with pytest.raises(error, match=words):
        edit_file(files, path, edits)
    assert files.seen() == before


def test_a_character_that_the_files_encoding_lacks_is_refused(files: EditedFiles) -> None:
    (files.root / "l.txt").write_bytes("café\n".encode("latin-1"))
    with pytest.raises(BadRequest, match=r"Latin-1, which cannot represent '→' \(U\+2192\)"):
        edit_file(files, "l.txt", [Replace("café", "→")])
    edit_file(files, "l.txt", [Replace("café", "déjà")])
    assert files.seen()["l.txt"] == "déjà\n".encode("latin-1")


def test_a_patch_applies_all_its_operations(files: EditedFiles) -> None:
    edited = apply_patch(
        files,
        envelope(
            *("*** Add File: new/n.txt", "+hello"),
            *(
                "*** Update File: src/a.py",
                "*** Move to: lib/c.py",
                "@@ def f():",
                "-    return 1",
                "+    return 2",
            ),
            *("*** Delete File: b.txt", "*** Update File: run.sh", "@@", "-echo", "+exec"),
        ),
    )
    tree = files.seen()
    assert set(tree) == {"new/n.txt", "lib/c.py", "run.sh", "x.bin"}
    assert tree["lib/c.py"] == b"def f():\r\n    return 2\r\n"
    assert [(file.path, file.kind, file.moved_from) for file in edited.files] == [
        ("new/n.txt", "created", None),
        ("lib/c.py", "moved", "src/a.py"),
        ("b.txt", "deleted", None),
        ("run.sh", "modified", None),
    ]
    assert {change.kind for change in edited.changes} == {"created", "moved", "deleted", "modified"}
    assert edited.diff.startswith(
        "--- /dev/null\n+++ b/new/n.txt\n@@ -0,0 +1 @@\n+hello\n--- a/src/a.py\n+++ b/lib/c.py"
    )


def test_a_diff_of_git_applies_all_its_operations(files: EditedFiles) -> None:
    apply_patch(
        files,
        "diff --git a/b.txt b/run2.sh\nold mode 100644\nnew mode 100755\n"
        "rename from b.txt\nrename to run2.sh\n"
        "--- a/b.txt\n+++ b/run2.sh\n@@ -2 +2 @@\n-two\n+2\n"
        "diff --git a/run.sh b/run.sh\nold mode 100755\nnew mode 100644\n"
        "diff --git a/n.sh b/n.sh\nnew file mode 100755\n--- /dev/null\n+++ b/n.sh\n@@ -0,0 +1 @@\n+x\n"
        "diff --git a/x.bin b/y.bin\nrename from x.bin\nrename to y.bin\n"
        "diff --git a/src/a.py b/src/b.py\ncopy from src/a.py\ncopy to src/b.py\n",
    )
    tree = files.seen()
    assert set(tree) == {"run2.sh", "run.sh", "n.sh", "y.bin", "src/a.py", "src/b.py"}
    assert (tree["run2.sh"], tree["src/b.py"]) == (b"one\n2\nthree\n", tree["src/a.py"])
    modes = {name: (files.root / name).stat().st_mode & 0o111 for name in ("run2.sh", "run.sh", "n.sh")}
    assert {name: bool(mode) for name, mode in modes.items()} == {
        "run2.sh": True,
        "run.sh": False,
        "n.sh": True,
    }


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ["*** Add File: n.txt", "+x", "*** Update File: gone.txt", "-a", "+b"],
            "File 2 of 2, 'gone.txt': it does not",
        ),
        (
            ["*** Delete File: b.txt", "*** Delete File: gone.txt"],
            "File 2 of 2, 'gone.txt': it does not exist",
        ),
        (["*** Add File: b.txt", "+x"], r"'b.txt': it already exists. Use '\*\*\* Update File'"),
        (
            ["*** Update File: b.txt", "-one", "+1", "*** Update File: x.bin", "-a", "+b"],
            "'x.bin': The file is binary",
        ),
        (["*** Delete File: src"], "'src': 'src' is a directory"),
        (
            ["*** Update File: b.txt", "-one", "+1", "@@", "-four", "+4"],
            "'b.txt': Hunk 2 of 2: its lines are not",
        ),
        (["*** Add File: ../out.txt", "+x"], "leads out of the workspace"),
        (["*** Update File: link.txt", "-out", "+in"], "leads out of the workspace"),
        (["*** Add File: n.txt", "+# ... existing code ..."], "placeholder for code"),
        (["*** Update File: b.txt", "-one", "+\ud800"], "UTF-8, which cannot represent"),
    ],
)
def test_a_patch_that_fails_anywhere_changes_nothing(
    files: EditedFiles, tmp_path_factory: pytest.TempPathFactory, lines: list[str], words: str
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "out.txt"
    outside.write_text("out\n")
    (files.root / "link.txt").symlink_to(outside)
    before = files.seen()
    with pytest.raises((BadRequest, Denied), match=f"^Nothing was changed. .*{words}"):
        apply_patch(files, envelope(*lines))
    assert files.seen() == before


def test_one_file_may_be_named_several_times(files: EditedFiles) -> None:
    edited = apply_patch(
        files,
        envelope(
            *("*** Update File: b.txt", "-one", "+1", "*** Update File: ./b.txt", " 1", "-two", "+2"),
            *("*** Add File: n.txt", "+x", "*** Update File: n.txt", "-x", "+y", "*** Delete File: run.sh"),
            *("*** Add File: run.sh", "+new"),
        ),
    )
    tree = files.seen()
    assert (tree["b.txt"], tree["n.txt"], tree["run.sh"]) == (b"1\n2\nthree\n", b"y\n", b"new\n")
    assert edited.files[0].diff == "--- a/b.txt\n+++ b/b.txt\n@@ -1,3 +1,3 @@\n-one\n-two\n+1\n+2\n three\n"
    assert [(change.path, change.kind) for change in edited.changes] == [
        ("b.txt", "modified"), ("n.txt", "created"), ("run.sh", "modified"),
    ]  # fmt: skip


def test_files_may_swap_their_paths(files: EditedFiles) -> None:
    one, two = files.seen()["b.txt"], files.seen()["run.sh"]
    apply_patch(
        files,
        envelope(
            *("*** Update File: b.txt", "*** Move to: t", "*** Update File: run.sh", "*** Move to: b.txt"),
            *("*** Update File: t", "*** Move to: run.sh"),
        ),
    )
    assert (files.seen()["run.sh"], files.seen()["b.txt"]) == (one, two)


def test_moving_onto_a_file_replaces_it_with_a_note(files: EditedFiles) -> None:
    edited = apply_patch(files, envelope("*** Update File: b.txt", "*** Move to: run.sh"))
    assert "run.sh" in files.seen() and "b.txt" not in files.seen()
    assert edited.text == "Moved 'run.sh' from 'b.txt'. It replaced the file that was at 'run.sh'."


def test_a_patch_that_is_already_applied_changes_nothing(files: EditedFiles) -> None:
    patch = envelope(
        *("*** Add File: n.txt", "+x", "*** Update File: b.txt", "-two", "+second line"),
        *("*** Update File: run.sh", "*** Move to: go.sh", "-echo", "+exec true"),
    )
    apply_patch(files, patch)
    tree = files.seen()
    again = apply_patch(files, patch)
    assert (files.seen(), again.changes) == (tree, ())
    assert [file.kind for file in again.files] == ["unchanged"] * 3
    assert again.files[1].notes == ("The hunk is already applied at line 2.",)


def test_a_file_that_changed_meanwhile_is_a_conflict(files: EditedFiles) -> None:
    class Racing(EditedFiles):
        def read_bytes(self, path: str) -> tuple[bytes, int]:
            answer = super().read_bytes(path)
            (self.root / path).write_bytes(b"one\nother\n")
            return answer

    with edited_files(files.root, Racing) as racing, pytest.raises(Conflict):
        edit_file(racing, "b.txt", [Replace("one", "1")])
    assert files.seen()["b.txt"] == b"one\nother\n"


def test_a_diff_with_two_names_finds_the_existing_file(files: EditedFiles) -> None:
    apply_patch(files, "--- b.txt\n+++ b.txt.new\n@@ -1 +1 @@\n-one\n+1\n")
    assert files.seen()["b.txt"] == b"1\ntwo\nthree\n"


def test_a_patch_that_is_too_long_is_refused(files: EditedFiles) -> None:
    with pytest.raises(BadRequest, match="17,000,000 characters, more than 16,777,216"):
        apply_patch(files, "x" * 17_000_000)
