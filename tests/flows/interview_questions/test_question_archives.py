"""Questions travel as folders and archives; hostile archives are refused while they are read."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, HutchError, LimitReached
from hutch.flows.interview_questions.question_archives import read_archive
from hutch.flows.interview_questions.question_bank_lookup import load_question
from hutch.flows.interview_questions.question_creation_import_export import (
    export_question,
    import_question,
    new_question_files,
)
from hutch.flows.interview_questions.question_folder_reader import MAX_BYTES, MAX_FILES
from tests.flows.interview_questions.question_folders import FILES, write_question


@pytest.mark.parametrize("name", ["q.zip", "q.tar.gz", "q.tgz", "folder"])
def test_a_question_survives_export_and_import(tmp_path: Path, name: str) -> None:
    folder = write_question(tmp_path / "bank")
    (folder / "python/starter/run.sh").write_text("#!/bin/sh\n")
    (folder / "python/starter/run.sh").chmod(0o755)
    before = load_question(folder)
    export_question(folder, tmp_path / name)
    imported, place = import_question(tmp_path / name, tmp_path / "other")
    assert place == tmp_path / "other/double"
    assert imported.digest == before.digest == load_question(place).digest
    assert sorted(each.name for each in (tmp_path / "other").iterdir()) == ["double"]


@pytest.mark.parametrize("name", ["q.zip", "q.tar.gz"])
def test_the_same_question_gives_the_same_archive(tmp_path: Path, name: str) -> None:
    folder = write_question(tmp_path / "bank")
    export_question(folder, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    os.utime(folder / "question.toml", (1, 1))
    export_question(folder, tmp_path / name, replaces=True)
    assert (tmp_path / name).read_bytes() == first


def test_nothing_is_replaced_unless_asked_for(tmp_path: Path) -> None:
    folder = write_question(tmp_path / "bank")
    export_question(folder, tmp_path / "q.zip")
    with pytest.raises(Conflict, match="exists"):
        export_question(folder, tmp_path / "q.zip")
    import_question(tmp_path / "q.zip", tmp_path / "other")
    (tmp_path / "other/double/python/starter/old.py").write_text("old")
    with pytest.raises(Conflict, match="exists"):
        import_question(tmp_path / "q.zip", tmp_path / "other")
    import_question(tmp_path / "q.zip", tmp_path / "other", replaces=True)
    assert not (tmp_path / "other/double/python/starter/old.py").exists()


def zipped(path: Path, entries: list[tuple[zipfile.ZipInfo | str, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in [*((f"double/{name}", text.encode()) for name, text in FILES.items()), *entries]:
            archive.writestr(name, data)
    return path


def tarred(path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in FILES.items():
            info = tarfile.TarInfo(f"double/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return path


def tar_entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


def zip_link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


NAMES = ["../outside", "double/../../outside", "/etc/outside", "double/a\\..\\b", "double/\0x"]


@pytest.mark.parametrize("name", NAMES[:4])
def test_paths_that_lead_outside_are_refused(tmp_path: Path, name: str) -> None:
    for archive in (
        zipped(tmp_path / "q.zip", [(name, b"x")]),
        tarred(tmp_path / "q.tar.gz", [(tar_entry(name, size=1), b"x")]),
    ):
        with pytest.raises(BadRequest, match="not a path inside"):
            import_question(archive, tmp_path / "bank")
    assert not (tmp_path / "bank").exists() and not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE]
)
def test_links_and_devices_in_a_tar_file_are_refused(tmp_path: Path, kind: bytes) -> None:
    archive = tarred(
        tmp_path / "q.tar.gz", [(tar_entry("double/python/starter/a", kind, "/etc/passwd"), b"")]
    )
    with pytest.raises(BadRequest):
        import_question(archive, tmp_path / "bank")


def test_a_link_in_a_zip_file_is_refused(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "q.zip", [(zip_link("double/python/starter/a"), b"/etc/passwd")])
    with pytest.raises(BadRequest, match="is a link"):
        import_question(archive, tmp_path / "bank")


def test_bombs_are_refused_while_they_are_read(tmp_path: Path) -> None:
    large = b"\0" * (MAX_BYTES + 1)
    for archive in (
        zipped(tmp_path / "q.zip", [("double/python/starter/large", large)]),
        tarred(tmp_path / "q.tar.gz", [(tar_entry("double/python/starter/large", size=len(large)), large)]),
    ):
        assert archive.stat().st_size < 100_000
        with pytest.raises(LimitReached, match="16 MiB"):
            read_archive(archive)


def test_a_bomb_in_the_headers_of_a_tar_file_is_refused(tmp_path: Path) -> None:
    header = tar_entry("double/x", tarfile.XHDTYPE, size=1 << 30).tobuf()
    with gzip.open(tmp_path / "q.tar.gz", "wb") as packed:
        packed.write(header)
        for _ in range(64):
            packed.write(b"\0" * (1 << 20))
    with pytest.raises(HutchError):
        read_archive(tmp_path / "q.tar.gz")


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "q.zip", [(f"double/python/starter/{n}", b"") for n in range(MAX_FILES)])
    with pytest.raises(LimitReached, match="2000 files"):
        read_archive(archive)


def test_the_same_path_twice_is_refused(tmp_path: Path) -> None:
    entry = tar_entry("double/question.toml", size=1)
    with pytest.raises(BadRequest, match="twice"):
        read_archive(tarred(tmp_path / "q.tar.gz", [(entry, b"x")]))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"PK\x03\x04" + b"\0" * 100, b"\x1f\x8b", b"text"])
def test_a_broken_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "q.zip").write_bytes(data)
    with pytest.raises(BadRequest, match="is not a whole"):
        read_archive(tmp_path / "q.zip")


def test_every_cut_of_an_archive_is_refused(tmp_path: Path) -> None:
    for name in ("q.zip", "q.tar.gz"):
        export_question(write_question(tmp_path / name / "bank"), tmp_path / name / name)
        whole = (tmp_path / name / name).read_bytes()
        for size in range(0, len(whole) - 100, 97):
            (tmp_path / name / name).write_bytes(whole[:size])
            with pytest.raises(BadRequest):
                import_question(tmp_path / name / name, tmp_path / "bank")


def test_an_archive_without_a_question_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "q.zip", "w") as archive:
        archive.writestr("a/x", "x")
        archive.writestr("b/question.toml", "x")
    with pytest.raises(BadRequest, match=r"one folder with question\.toml"):
        read_archive(tmp_path / "q.zip")


def test_a_new_question_has_the_chosen_languages() -> None:
    files = new_question_files("my-question", ("python", "go"))
    assert {path.split("/")[0] for path in files if "/" in path} == {"python", "go"}
    assert b'id = "my-question"' in files["question.toml"].content
    with pytest.raises(BadRequest, match="is no id"):
        new_question_files("../x")
