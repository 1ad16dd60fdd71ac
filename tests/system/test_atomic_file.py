"""A file is replaced whole or not at all."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hutch.system.atomic_file import replace_file, write_private

WRITES = """
import pathlib, sys
from hutch.system.atomic_file import replace_file
print("began", flush=True)
while True:
    for letter in "ab":
        replace_file(pathlib.Path(sys.argv[1]), letter * 100_000)
"""


@pytest.mark.parametrize("content", ["caf\u00e9\n", b"\xff\x00", ""])
@pytest.mark.parametrize("durable", [True, False])
def test_content_and_mode(tmp_path: Path, content: bytes | str, durable: bool) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    replace_file(file, content, mode=0o600, durable=durable)
    assert file.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208


def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for pause_s in (0.01, 0.02, 0.03):
        with subprocess.Popen([sys.executable, "-c", WRITES, file], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == b"began\n"
            while not file.exists():
                time.sleep(0.001)
            time.sleep(pause_s)
            writer.kill()
        assert file.read_text() in ("a" * 100_000, "b" * 100_000)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "file").mkdir(parents=True)  # a directory is not replaced by a file
    with pytest.raises(OSError):
        replace_file(place / "file", "new")
    assert [path.name for path in place.iterdir()] == ["file"]


def test_a_private_file_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file"
    write_private(file, "secret")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file.parent, file)] == [0o700, 0o600]
