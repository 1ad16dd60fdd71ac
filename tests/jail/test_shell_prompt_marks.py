"""The arguments with which a terminal's shell prints marks, and the descriptor that gives it the key."""

import pytest

from hutch.jail.interface import Size
from hutch.jail.jail_startup import Jailed
from hutch.jail.shell_prompt_marks import DIRECTORY, FILES, marked_program, shell_files


def test_known_shells_get_a_startup_file_and_a_key_of_their_own() -> None:
    bash, zsh, sh = (marked_program(program) for program in ("/bin/bash", "zsh", "/bin/sh"))
    assert (bash.argv, bash.env) == (("/bin/bash", "--rcfile", f"{DIRECTORY}/bash.sh"), {})
    assert (zsh.argv, zsh.env) == (("zsh",), {"ZDOTDIR": f"{DIRECTORY}/zsh", "HUTCH_ZDOTDIR": ""})
    assert (sh.argv, sh.env) == (("/bin/sh",), {"ENV": f"{DIRECTORY}/sh.sh", "HUTCH_ENV": ""})
    assert len({bash.key, zsh.key, sh.key}) == 3 and len(bash.key) == 32


def test_another_program_starts_as_it_is() -> None:
    fish = marked_program("/usr/bin/fish")
    assert (fish.argv, fish.env, fish.key) == (("/usr/bin/fish",), {}, "")


def test_a_users_own_settings_are_passed_on() -> None:
    own = {"ZDOTDIR": "/home/hutch/zsh", "ENV": "/home/hutch/.shrc"}
    assert marked_program("zsh", environment=own).env["HUTCH_ZDOTDIR"] == "/home/hutch/zsh"
    assert marked_program("sh", environment=own).env["HUTCH_ENV"] == "/home/hutch/.shrc"


def test_the_files_are_in_the_package() -> None:
    assert list(shell_files()) == [f"{DIRECTORY}/{name}" for name in FILES]
    assert all("133;" in text for text in shell_files().values())


@pytest.mark.anyio
async def test_bytes_for_a_program_beside_its_terminal(jail: Jailed) -> None:
    process = await jail.spawn(
        ["sh", "-c", "cat <&3; echo -end-; for fd in 0 1 2; do test -t $fd && echo tty$fd; done"],
        terminal=Size(),
        descriptor_3=b"from the host",
    )
    assert process.stdout is not None
    shown = b""
    while data := await process.stdout.read():
        shown += data
    assert shown == b"from the host-end-\r\ntty0\r\ntty1\r\ntty2\r\n"
    assert (await process.wait()).code == 0
    process.close()


@pytest.mark.anyio
async def test_without_bytes_a_program_gets_no_more_descriptors(jail: Jailed) -> None:
    process = await jail.spawn(["sh", "-c", "ls /proc/self/fd | wc -w"], terminal=Size())
    assert process.stdout is not None
    assert (await process.stdout.read()).strip() == b"4"  # and the directory that it lists
    process.close()
