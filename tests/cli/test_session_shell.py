"""`hutch shell SESSION`: a terminal of a session, on a person's own."""

from collections.abc import Iterator

import pytest

from hutch.cli import exit_codes
from tests.cli.attached_users import ServerHome, new_server_home, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


@pytest.fixture(scope="module")
def session(server: ServerHome) -> str:
    id = server.new({"text": "Hello."}, purpose="shells")
    server.until(id, "idle")
    return id


def test_a_shell_in_the_session_and_its_exit_code(server: ServerHome, session: str) -> None:
    with server.visitor("shell", session) as ada:
        ada.see("Ctrl-\\] detaches")
        ada.see(r"\$ ")
        ada.type("echo seen-$((40+2)); stty size\r")
        ada.see("seen-42\r\n24 80")
        ada.resize(30, 100)
        ada.type("until stty size | grep '^30 100$'; do sleep 0.1; done; exit 7\r")
        ada.see(r"\n\r?30 100\r")
        assert ada.leave() == 7


def test_a_limit_that_ends_the_shell_is_named(server: ServerHome) -> None:
    session = server.new({"text": "Hello."}, limit="file_bytes=1MiB")
    server.until(session, "idle")
    with server.visitor("shell", session) as ada:
        ada.see(r"\$ ")
        ada.type("exec dd if=/dev/zero of=big bs=1M count=4\r")
        ada.see("stopped by the limit file_bytes 1 MiB")
        assert ada.leave() == exit_codes.LIMIT_REACHED
    log = server.hutch("log", session)
    assert "stopped by the limit file_bytes 1 MiB" in log.stdout


def test_a_detached_user_returns_to_the_same_shell(server: ServerHome, session: str) -> None:
    with server.visitor("shell", session[-6:]) as ada:
        ada.see(r"terminal (\S+) of session")
        ada.see(r"\$ ")
        ada.type("MARK=kept-here\r")
        ada.see(r"\$ ")
        ada.type("\x1d")
        ada.see(f"return with: hutch shell {session} --terminal ")
        assert ada.leave() == exit_codes.OK
        id = ada.shown.split(b"--terminal ")[1].split()[0].decode()
    with server.visitor("shell", "--session", session, "--terminal", id) as ada:
        ada.type("echo it-is-$MARK\r")
        ada.see("it-is-kept-here")
        ada.type("exit\r")
        assert ada.leave() == exit_codes.OK
    gone = server.hutch("shell", session, "--terminal", "nonsense")
    assert gone.returncode == exit_codes.BAD_REQUEST


def test_the_keys_of_the_terminal_go_through(server: ServerHome, session: str) -> None:
    with server.visitor("shell", session) as ada:
        ada.see(r"\$ ")
        ada.type("sh -c 'echo on-$((1+1)); exec sleep 1000'\r")  # without exec, dash may lose the signal
        ada.see("on-2")  # what is echoed only is not there yet to be interrupted
        ada.type("\x03")
        ada.see(r"\^C.*\$ ")
        ada.type("true\r")
        ada.see(r"true.*\$ ")
        ada.type("\x04")
        assert ada.leave() == exit_codes.OK


def test_large_output_is_complete(server: ServerHome, session: str) -> None:
    with server.visitor("shell", session) as ada:
        ada.see(r"\$ ")
        ada.type("seq 1 200000; echo the-$((1+1))nd-end\r")
        ada.see("the-2nd-end")
        ada.type("exit\r")
        assert ada.leave() == exit_codes.OK
        numbers = [line for line in ada._clean().replace(b"\r", b"").split(b"\n") if line.isdigit()]
        assert numbers == [str(number).encode() for number in range(1, 200_001)]


def test_after_a_server_restart_the_terminal_no_longer_exists() -> None:
    with new_server_home() as server:
        with server.up():
            id = server.new({"text": "Hello."})
            server.until(id, "idle")
            came = server.visitor("shell", id)
            ada = came.__enter__()
            ada.see(r"\$ ")
        try:
            ada.see("disconnected; waiting for the server")
            with server.up():
                ada.see("The terminal no longer exists")
                assert ada.leave() == exit_codes.UNAVAILABLE
        finally:
            came.__exit__(None, None, None)


def test_without_a_terminal_a_shell_is_refused(server: ServerHome, session: str) -> None:
    result = server.hutch("shell", session)
    assert result.returncode == exit_codes.BAD_REQUEST and "needs a terminal" in result.stderr


def test_a_program_name_is_not_a_session(server: ServerHome, session: str) -> None:
    ran = server.say("shell", "base64", stdin="x")
    assert (ran.returncode, ran.stdout) == (exit_codes.OK, "eA==\n"), ran.stderr
    unknown = server.say("shell", "nn7s7h", stdin="")
    assert unknown.returncode == exit_codes.NOT_FOUND and "no program 'nn7s7h'" in unknown.stderr
