"""Output files use a limited amount of disk space on the host."""

from dataclasses import replace
from pathlib import Path

import pytest

from hutch.jail.command_output_capture import Capture, OutputFiles
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import AGENT, MIB
from hutch.jail.shell.shared_jails_and_shells import Shells


def capture(files: OutputFiles, size: int) -> Capture:
    made = Capture(max_bytes=1, file_bytes=100, files=files)
    made.add("stdout", b"x" * size)
    return made


def test_the_oldest_ended_file_is_deleted_for_space(tmp_path: Path) -> None:
    files = OutputFiles(lambda: tmp_path, 100)
    made = [capture(files, 40) for _ in range(2)]
    for each in made:
        each.close()
    newest = capture(files, 40)
    newest.close()
    assert sorted(tmp_path.iterdir()) == [made[1].path, newest.path]
    assert not any(each.cut for each in (*made, newest))


def test_open_files_stay_and_a_new_one_is_cut(tmp_path: Path) -> None:
    files = OutputFiles(lambda: tmp_path, 100)
    first, second = capture(files, 80), capture(files, 80)
    second.add("stdout", b"y")
    assert first.path and second.path
    assert (first.cut, first.path.stat().st_size) == (False, 80)
    assert (second.cut, second.path.stat().st_size) == (True, 20)
    first.close()
    third = capture(files, 90)
    assert (third.cut, first.path.exists()) == (True, False)


@pytest.mark.anyio
async def test_all_of_a_jail_together_and_nothing_after_it(workspace: Path) -> None:
    policy = replace(AGENT, limits=replace(AGENT.limits, output_bytes=1000, output_file_bytes=MIB))
    async with open_jail(workspace, policy) as jail:
        shell = Shells(jail).shell()
        paths = []
        for _ in range(6):
            done = await jail.run(["head", "-c", "900000", "/dev/zero"])
            result = await shell.run("head -c 2000000 /dev/zero")
            assert (done.output_cut, result.output_cut) == (False, True)
            paths += [done.output_path, result.output_path]
        assert paths[-1] and paths[-2]
        kept = [path for path in paths if path and path.exists()]
        assert kept == paths[-len(kept) :]
        assert sum(path.stat().st_size for path in kept) <= 4 * MIB
        directory = paths[-1].parent
        assert paths[-2].parent == directory and directory.name.startswith("hutch-jail-")
    assert not directory.exists()
