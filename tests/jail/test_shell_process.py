"""The directory of a shell, whatever its name and whatever the shell says."""

import os
from pathlib import Path

import pytest

from hutch.jail.jail_startup import Jailed
from hutch.jail.shell.command_results_and_events import ShellEvent
from hutch.jail.shell.process_directory_and_descriptors import ProcLinks, displayed_path
from hutch.jail.shell.shared_jails_and_shells import Shells

pytestmark = pytest.mark.anyio
NAMES = ["plain", "it's", 'say "so"', "$HOME `x` \\", "two\nlines", "x (deleted)", "ä", "end'"]


@pytest.mark.parametrize("program", ["/bin/sh", "/bin/bash"])
async def test_directories_of_every_name(jail: Jailed, workspace: Path, program: str) -> None:
    shell = Shells(jail).shell(program=program)
    for name in NAMES:
        (workspace / name).mkdir()
        ran = await shell.run('cd /workspace; cd -- "$NAME"', env={"NAME": name})
        assert (ran.exit_code, ran.cwd) == (0, f"/workspace/{name}"), ran


@pytest.mark.parametrize("program", ["/bin/sh", "/bin/bash"])
async def test_the_variable_cannot_lie(jail: Jailed, program: str) -> None:
    shell = Shells(jail).shell(program=program)
    assert (await shell.run("cd /tmp; PWD=/etc/lies")).cwd == "/tmp"
    ran = await shell.run("PWD=$(head -c 3000000 /dev/zero | tr '\\0' a)")
    assert (ran.exit_code, ran.cwd) == (0, "/tmp")
    assert (await shell.run("PWD=$(printf '\\377'); true")).cwd == "/tmp"


async def test_a_link_is_reported_as_its_target(jail: Jailed) -> None:
    shell = Shells(jail).shell()
    assert (await shell.run("mkdir real; ln -s real link; cd link")).cwd == "/workspace/real"


async def test_a_name_that_is_not_text_is_displayed_as_text_and_found_again(jail: Jailed) -> None:
    events: list[ShellEvent] = []
    shell = Shells(jail, on_event=events.append).shell()
    ran = await shell.run('cd /tmp; d=$(printf \'\\377\'); mkdir "$d"; cd "$d"')
    assert (ran.exit_code, ran.cwd, shell.cwd) == (0, "/tmp/\ufffd", "/tmp/\udcff")
    await shell.run("exit")
    again = await shell.run("ls -d ../*")
    assert (again.stdout_bytes, again.cwd) == (b"../\xff\n", "/tmp/\ufffd")
    assert all("\udcff" not in repr(event).encode("unicode_escape").decode() for event in events)
    assert "\ufffd" in repr(events[-1])


def test_an_ended_process_has_no_directory() -> None:
    cwd = ProcLinks(os.open("/proc/self", os.O_PATH))
    assert cwd.read_cwd() == str(Path.cwd())
    cwd.close()
    cwd.close()
    assert cwd.read_cwd() is None


def test_a_displayed_path_is_always_text() -> None:
    assert [displayed_path(each) for each in ("/a", "/ä", "/\udcff")] == ["/a", "/ä", "/\ufffd"]
