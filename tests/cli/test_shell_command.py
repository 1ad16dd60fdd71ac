"""`hutch shell`: real jails on real terminals, and plain commands as scripts use them."""

import contextlib
import fcntl
import http.server
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests import forked_command
from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, Forked
from tests.new_database import place_database
from tests.ordinary_user import place as readable_tree

IS_ROOT = os.geteuid() == 0
NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the jail's user can reach, with a home for Hutch beside the workspace."""
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    (directory / "work").mkdir()
    place_database(directory / "home" / "data")
    yield directory
    shutil.rmtree(directory)


def environment(place: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HUTCH_HOME": str(place / "home"), "TERM": "xterm", **more}


def run(
    place: Path, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    return forked_command.run(
        [HUTCH, "shell", *args],
        cwd=place / "work",
        env=environment(place, **(env or {})),
        input=stdin,
        capture_output=True,
        timeout=DEADLINE_S,
    )


def start(place: Path, *args: str) -> "subprocess.Popen[bytes]":
    return Forked(
        [HUTCH, "shell", *args],
        cwd=place / "work",
        env=environment(place),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


class Person:
    """A user at a terminal who has typed `hutch shell …`."""

    program: tuple[str, ...] = (HUTCH, "shell")

    def __init__(self, place: Path, *args: str, **env: str) -> None:
        self.master, slave = pty.openpty()
        self.slave = slave  # stays open, to inspect its modes
        self.resize(24, 80, notify=False)
        self.modes = termios.tcgetattr(slave)
        self.shown = b""
        self._from = 0
        # setsid -c makes the terminal its controlling one, and then is hutch.
        self.process = Forked(
            ["setsid", "-c", *self.program, *args],
            cwd=place / "work",
            env=environment(place, **env),
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def see(self, pattern: str, within_s: float = DEADLINE_S) -> None:
        """Wait for this to be shown; fails as soon as the program has ended without it."""
        deadline, has_ended = time.monotonic() + within_s, False
        while not (found := re.search(pattern.encode(), self._clean()[self._from :], re.S)):
            missing = f"{pattern} is not in {self._clean()[self._from :]!r}"
            assert not has_ended, f"the program has ended, and {missing}"
            assert time.monotonic() < deadline, missing
            has_ended = self.process.poll() is not None  # before the last output is read
            self._read_screen(0.05)
        self._from += found.end()

    def resize(self, rows: int, columns: int, *, notify: bool = True) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if notify:  # the kernel signals the foreground group of the master's own resize; this is the slave's
            self.process.send_signal(signal.SIGWINCH)

    def leave(self, within_s: float = DEADLINE_S) -> int:
        """Wait for the end, and see that the terminal is as it was."""
        deadline = time.monotonic() + within_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still there: {self.shown!r}"
            self._read_screen(0.05)
        self._read_screen(0)
        assert termios.tcgetattr(self.slave) == self.modes
        return self.process.returncode

    def _clean(self) -> bytes:
        """The output, without announcements that the shell takes a paste and marks of its commands."""
        return re.sub(rb"\x1b\[\?2004[hl]\r?|\x1b\]133;[^\x07\x1b]*(?:\x07|\x1b\\)", b"", self.shown)

    def _read_screen(self, within_s: float) -> None:
        while select.select([self.master], [], [], within_s)[0]:
            self.shown += os.read(self.master, 65536)
            within_s = 0

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@contextlib.contextmanager
def person(place: Path, *args: str, **env: str) -> Iterator[Person]:
    opened = Person(place, *args, **env)
    try:
        yield opened
    finally:
        opened.close()


# --- one command ---


def test_output_and_error_are_separate(place: Path) -> None:
    ran = run(place, "--", "sh", "-c", "echo out; echo err >&2; pwd; exit 3")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, b"out\n/workspace\n", b"err\n")


@pytest.mark.parametrize(("number", "code"), [("TERM", 143), ("KILL", 137), ("SEGV", 139)])
def test_a_signal_exits_with_128_plus_its_number(place: Path, number: str, code: int) -> None:
    assert run(place, "--", "sh", "-c", f"kill -{number} $$").returncode == code


def test_piped_input_passes_byte_for_byte(place: Path) -> None:
    data = bytes(range(256)) * 8192
    ran = run(place, "--", "cat", stdin=data)
    assert (ran.returncode, ran.stdout == data, ran.stderr) == (0, True, b"")


def test_a_script_on_standard_input_is_run(place: Path) -> None:
    ran = run(place, stdin=b"x=inner\necho $x $((6 * 7))\nexit 4\n")
    assert (ran.returncode, ran.stdout, ran.stderr) == (4, b"inner 42\n", b"")


def test_new_files_belong_to_the_directorys_owner(place: Path) -> None:
    assert run(place, "--", "sh", "-c", "mkdir new; echo kept > new/file").returncode == 0
    made = place / "work" / "new" / "file"
    assert made.read_text() == "kept\n"
    assert made.stat().st_uid == (place / "work").stat().st_uid


def test_another_directory_by_option(place: Path) -> None:
    (place / "other").mkdir()
    assert run(place, "-w", str(place / "other"), "--", "touch", "here").returncode == 0
    assert (place / "other" / "here").exists()


def test_installed_scripts_run(place: Path) -> None:
    """Their first line names the interpreter by its path out here."""
    environment = place / "work" / ".venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", environment], check=True)
    tool = environment / "bin" / "tool"
    tool.write_text(f"#!{environment}/bin/python\nimport sys\nprint(sys.prefix)\n")
    tool.chmod(0o755)
    ran = run(place, "--", ".venv/bin/tool")
    assert (ran.returncode, ran.stdout.decode(), ran.stderr) == (0, f"{environment}\n", b"")


def test_commits_have_the_users_author_not_the_repositorys(place: Path) -> None:
    (place / "me").mkdir()
    (place / "me" / ".gitconfig").write_text("[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n")
    subprocess.run(["git", "init", "-q", place / "work"], check=True)
    subprocess.run(["git", "-C", place / "work", "config", "user.name", "Mallory"], check=True)
    env = {"HOME": str(place / "me")}
    ran = run(
        place, "--", "sh", "-c", "git commit -q --allow-empty -m x && git log --format='%an %cn %ae'", env=env
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (
        0,
        b"Ada Lovelace Ada Lovelace ada@example.org\n",
        b"",
    )
    ran = run(place, "--", "sh", "-c", "env | grep -c ^GIT_", env={"HOME": str(place / "nobody")})
    assert ran.stdout == b"0\n"


def test_large_output_is_passed_through(place: Path) -> None:
    ran = run(place, "--", "seq", "3000000")
    assert ran.stdout == b"".join(b"%d\n" % number for number in range(1, 3_000_001))


def test_exit_does_not_wait_for_a_child_that_holds_the_output(place: Path) -> None:
    ran = run(place, "--", "sh", "-c", f"echo first; sleep {2 * DEADLINE_S} & echo last")
    assert (ran.returncode, ran.stdout) == (0, b"first\nlast\n")


def test_a_closed_pipe_stops_the_command(place: Path) -> None:
    process = start(place, "--", "yes")
    assert process.stdout and process.stdin and process.stderr
    assert process.stdout.read(4) == b"y\ny\n"
    process.stdout.close()
    assert process.wait(DEADLINE_S) == 128 + signal.SIGPIPE
    process.stdin.close()
    process.stderr.close()


@pytest.mark.parametrize("command", ["echo hi", "yes", "echo one; sleep 0.3; echo two"])
def test_output_to_a_full_disk_is_reported(place: Path, command: str) -> None:
    ran = in_shell(place, f"exec {HUTCH} shell -- sh -c '{command}' >/dev/full")
    assert ran.returncode == 6
    assert ran.stderr.startswith(b"hutch: The output could not be written: No space left on device.")
    assert in_shell(place, f"exec {HUTCH} shell -- sh -c '{command} >&2' 2>/dev/full").returncode != 0


def test_closed_output_is_reported_when_it_is_used(place: Path) -> None:
    ran = in_shell(place, f"exec {HUTCH} shell -- echo hi >&-")
    assert (ran.returncode, ran.stderr.count(b"Bad file descriptor")) == (6, 1)
    assert in_shell(place, f"exec {HUTCH} shell -- true >&-").returncode == 0
    ran = in_shell(place, f"exec {HUTCH} shell -- sh -c 'cat; echo $?' <&-")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"0\n", b"")


def in_shell(place: Path, line: str) -> "subprocess.CompletedProcess[bytes]":
    """Run a command line with its redirections in a shell."""
    return subprocess.run(
        ["sh", "-c", line],
        cwd=place / "work",
        env=environment(place),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
    )


def test_a_slow_reader_gets_everything(place: Path) -> None:
    process = start(place, "--", "sh", "-c", "seq 200000; echo end >&2")
    assert process.stdout
    time.sleep(1.5)
    stdout, stderr = process.communicate(timeout=DEADLINE_S)
    assert (len(stdout), stderr) == (len(b"".join(b"%d\n" % n for n in range(1, 200_001))), b"end\n")


def test_ctrl_c_goes_to_the_command(place: Path) -> None:
    process = start(
        place, "--", "bash", "-c", "trap 'echo caught; exit 9' INT; echo on; while :; do sleep 0.1; done"
    )
    assert process.stdout
    assert process.stdout.readline() == b"on\n"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, stdout, stderr) == (9, b"caught\n", b"")


def test_ctrl_c_ends_a_command_without_a_handler(place: Path) -> None:
    process = start(place, "--", "sh", "-c", "echo on; exec sleep 50")
    assert process.stdout
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ending_hutch_ends_everything_in_the_jail(place: Path, number: signal.Signals) -> None:
    seconds = f"3217.{os.getpid()}"  # that no test of another worker sleeps
    script = f"trap '' TERM HUP; (setsid sleep {seconds} &) ; echo on; sleep {seconds}"
    process = start(place, "--", "sh", "-c", script)
    assert process.stdout
    process.stdout.readline()
    process.send_signal(number)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + number
    assert f"sleep\0{seconds}".encode() not in b"".join(command_lines())


def command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


# --- limits ---


def test_a_timeout_is_named_and_keeps_the_output(place: Path) -> None:
    ran = run(place, "--timeout", "1", "--", "sh", "-c", "echo so far; sleep 50")
    assert (ran.returncode, ran.stdout) == (5, b"so far\n")
    assert ran.stderr == b"hutch: Killed after 1 s (--timeout). Use a longer timeout, or none.\n"


def test_a_command_has_no_default_timeout(place: Path) -> None:
    """The timeout of the settings is for agents; a person has Ctrl-C."""
    ran = run(place, "--", "sh", "-c", "sleep 1.5; echo done", env={"HUTCH_JAIL__COMMAND_TIMEOUT_S": "1"})
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"done\n", b"")
    assert run(place, "--timeout", "86400", "--", "true").returncode == 0


def test_a_timeout_is_not_held_up_by_a_reader(place: Path) -> None:
    process = start(place, "--timeout", "1", "--", "yes")
    assert process.wait(DEADLINE_S) == 5
    process.communicate()


def test_the_memory_limit_is_reported(place: Path) -> None:
    hog = "import time\nx = []\nwhile True: x.append(b'x' * (20 << 20)); time.sleep(0.1)"
    ran = run(place, "--profile", "test", "--", "/usr/bin/python3", "-c", hog)
    result = b"hutch: The limit memory_bytes (512 MiB) was hit. It comes from --profile test. Use less, or "
    assert result in ran.stderr
    assert ran.returncode == 5


def test_the_growth_limit_is_reported(place: Path) -> None:
    env = {"HUTCH_JAIL__WORKSPACE_GROWTH_BYTES": "10MiB"}
    grow = "while :; do head -c 5000000 /dev/zero >> big; sleep 0.1; done"
    ran = run(place, "--", "sh", "-c", grow, env=env)
    assert ran.returncode == 5
    assert b"jail.workspace_growth_bytes (10 MiB) was hit" in ran.stderr


def test_every_limit_is_reported_although_the_command_continued(place: Path) -> None:
    fill = "head -c 5000000 /dev/zero > /tmp/full; head -c 5000000 /dev/zero > /dev/shm/full; true"
    ran = run(place, "--", "sh", "-c", f"({fill}) 2>/dev/null", env={"HUTCH_JAIL__TMP_BYTES": "2MiB"} | SHM)
    assert (ran.returncode, ran.stderr.decode().splitlines()) == (
        0,
        [
            f"hutch: The limit jail.{name} (2 MiB) was hit. Use less, or raise jail.{name} in your settings."
            for name in ("tmp_bytes", "shm_bytes")
        ],
    )


SHM = {"HUTCH_JAIL__SHM_BYTES": "2MiB"}


def test_the_file_size_limit_is_reported(place: Path) -> None:
    ran = run(place, "--", "truncate", "-s", "3G", "large")
    assert ran.returncode == 5
    assert (
        b"The limit file_bytes (2 GiB) was hit. Write smaller files, or raise jail.workspace_g" in ran.stderr
    )
    more = {"HUTCH_JAIL__WORKSPACE_GROWTH_BYTES": "4GiB"}
    assert run(place, "--", "truncate", "-s", "3G", "large", env=more).returncode == 0


def test_the_process_limit_is_reported_even_after_a_quick_exit(place: Path) -> None:
    fork = "for i in $(seq 60); do sleep 9 & done 2>/dev/null"
    ran = run(place, "--", "sh", "-c", fork, env={"HUTCH_JAIL__PROCESSES": "16"})
    assert b"hutch: The limit jail.processes (16) was hit." in ran.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--timeout", "0", "--", "true"), b"--timeout is 0."),
        (("--timeout", "86401", "--", "true"), b"at most 86400"),
        (("--profile", "none", "--", "true"), b"There is no jail profile 'none'"),
        (("--net", "http://x/", "--", "true"), b"is a URL"),
        (("-w", "nowhere", "--", "true"), b"The workspace 'nowhere' does not exist. Create it first"),
        (("-w", "/etc/passwd", "--", "true"), b"The workspace '/etc/passwd' is not a directory."),
        (("ls", "-la"), b"Put the command after --, as in: hutch shell -- ls -la."),
    ],
)
def test_a_mistake_is_explained(place: Path, args: tuple[str, ...], message: bytes) -> None:
    ran = run(place, *args)
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"hutch: ") and message in ran.stderr and ran.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("no-such-program", 127, "There is no program 'no-such-program' in the jail"),
        ("./nothing", 127, "There is no program './nothing' in the jail"),
        ("./plain", 126, "'./plain' is not executable"),
        ("./folder", 126, "'./folder' is a directory"),
        ("/usr", 126, "'/usr' is a directory"),
        ("./script", 126, "'./script' needs the interpreter '/nowhere/python'"),
        ("./windows", 126, r"'./windows' needs the interpreter '/bin/sh\r'"),
    ],
)
def test_a_command_that_cannot_be_started_says_why(
    place: Path, command: str, code: int, message: str
) -> None:
    work = place / "work"
    (work / "plain").write_text("text")
    (work / "folder").mkdir()
    for name, text in {"script": "#!/nowhere/python -u\n", "windows": "#!/bin/sh\r\ntrue\r\n"}.items():
        (work / name).write_bytes(text.encode())
        (work / name).chmod(0o755)
    ran = run(place, "--", command)
    assert (ran.returncode, ran.stdout, ran.stderr.count(b"\n")) == (code, b"", 1)
    assert ran.stderr.startswith(f"hutch: {message}".encode())


# --- the network ---

GET = "import sys, urllib.request as u; u.urlopen(sys.argv[1])"


def test_there_is_no_network_by_default(place: Path) -> None:
    ran = run(place, "--", "sh", "-c", "wc -l < /proc/net/route; ls /sys/class/net 2>/dev/null")
    assert ran.stdout.split() == [b"1"]


@pytest.mark.parametrize(("url", "port"), [("http://b.example/", 80), ("https://b.example/", 443)])
def test_without_network_a_connection_fails_with_a_hint(place: Path, url: str, port: int) -> None:
    ran = run(place, "--", "/usr/bin/python3", "-c", GET, url)
    inner, _, result = ran.stderr.partition(b"hutch: ")
    assert ran.returncode == 1
    assert b"--net b.example" in inner
    assert result.startswith(b"blocked connection to b.example:%d:" % port) and b"--net b.example" in result


def test_a_server_inside_is_reached_past_the_proxy(place: Path) -> None:
    serve = "python3 -m http.server 8123 >/dev/null 2>&1 & "
    serves = "until (: < /dev/tcp/localhost/8123) 2>/dev/null; do sleep 0.1; done; "
    get = f"/usr/bin/python3 -c '{GET}' http://localhost:8123/"
    ran = run(place, "--", "bash", "-c", serve + serves + get)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize(
    "host", ["localhost:8000", "127.0.0.1", "10.1.2.3:443", "169.254.169.254", "[::1]:80"]
)
def test_a_host_that_can_never_be_reached_is_refused_at_the_start(place: Path, host: str) -> None:
    ran = run(place, "--net", host, "--", "touch", "started")
    assert (ran.returncode, ran.stdout, list((place / "work").iterdir())) == (2, b"", [])
    assert f"Allowed host '{host}' is a ".encode() in ran.stderr and b"jail.private_networks" in ran.stderr


def test_a_private_registry_is_reached_when_its_network_is_exempted(place: Path) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.2", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        host = f"127.0.0.2:{server.server_port}"
        get = ("--net", host, "--", "/usr/bin/python3", "-c", GET, f"http://{host}/")
        ran = run(place, *get)
        assert ran.returncode == 2
        named = re.search(rb"set (jail\.private_networks) to (127\.0\.0\.2/32) in your settings", ran.stderr)
        assert named
        ran = run(place, *get, env={"HUTCH_JAIL__PRIVATE_NETWORKS": named[2].decode()})
        assert (ran.returncode, ran.stderr) == (0, b"")
    finally:
        server.shutdown()
        server.server_close()


def test_a_repository_cannot_exempt_a_network(place: Path) -> None:
    (place / "work" / ".hutch").mkdir()
    (place / "work" / ".hutch" / "config.toml").write_text('jail.private_networks = ["127.0.0.0/8"]\n')
    ran = run(place, "--net", "127.0.0.2:80", "--", "true")
    assert ran.returncode == 2
    assert b"a repository may not set it" in ran.stderr and b"may not reach" in ran.stderr


def test_a_blocked_host_is_named_with_a_hint(place: Path) -> None:
    ran = run(place, "--net", "a.example", "--", "/usr/bin/python3", "-c", GET, "http://b.example/")
    assert ran.returncode == 1
    assert b"hutch: blocked connection to b.example:80:" in ran.stderr
    assert b"--net b.example" in ran.stderr


# --- on a terminal ---


def test_a_shell_on_a_terminal(place: Path) -> None:
    with person(place) as someone:
        someone.see(rf"hutch: jailed in {place}/work; network: none; limits: 2 GiB memory, 512 processes")
        someone.see(r"\$ ")
        someone.type("stty size; tty; echo $TERM\n")
        someone.see(r"24 80\r\n/dev/pts/\d+\r\nxterm\r\n")
        someone.type("sh -c 'echo be''gun; exec sleep 1000'\n")
        someone.see("\nbegun\r\n")
        someone.type("\x03")
        someone.see(r"\$ ")
        someone.type("sh -c 'echo be''gun; exec sed s/call/answer/'\n")
        someone.see("\nbegun\r\n")
        someone.type("\x1a")
        someone.see("Stopped +sh -c .*sed s/call")
        someone.type("fg\n")
        someone.see("sed s/call/answer/'\r\n")
        someone.type("call\n")
        someone.see("answer\r\n")
        someone.type("\x03")
        someone.see(r"\$ ")
        someone.type("exit 3\n")
        assert someone.leave() == 3


def test_a_command_on_a_terminal_prints_no_banner(place: Path) -> None:
    with person(place, "--", "echo", "hi") as someone:
        assert someone.leave() == 0
        assert someone.shown == b"hi\r\n"


def test_the_window_size_is_passed_on(place: Path) -> None:
    with person(place) as someone:
        someone.see(r"\$ ")
        someone.type("sh -c 'trap \"stty size; exit\" WINCH; echo be''gun; while :; do sleep 0.1; done'\n")
        someone.see("\nbegun\r\n")
        someone.resize(40, 132)
        someone.see("40 132\r\n")
        someone.type("exit\n")
        assert someone.leave() == 0


def test_a_shell_killed_by_a_limit_is_restarted_in_the_same_jail(place: Path) -> None:
    with person(place, HUTCH_JAIL__WORKSPACE_GROWTH_BYTES="10MiB") as someone:
        someone.see(r"\$ ")
        someone.type("sleep 2; while :; do head -c 5000000 /dev/zero >> big; sleep 0.1; done\n")
        someone.see(r"\nhutch: The limit jail.workspace_growth_bytes \(10 MiB\) was hit. Use less")
        someone.see(r"hutch: Every program in the jail was killed. You are in a new shell in the same jail.")
        someone.see(r"\$ ")
        someone.type("rm big; echo still $((40 + 2)) $PWD\n")
        someone.see("still 42 /workspace\r\n")
        someone.type("exit 3\n")
        assert someone.leave() == 3
    assert not (place / "work" / "big").exists()


def test_a_limit_is_reported_while_the_shell_runs(place: Path) -> None:
    with person(place, "--profile", "test") as someone:
        someone.see(r"\$ ")
        someone.type("head -c 300000000 /dev/zero > /tmp/full; read line; echo then $((40 + 2))\n")
        someone.see(r"\r\nhutch: The limit tmp_bytes \(192 MiB\) was hit. It comes from --profile test")
        someone.type("\n")
        someone.see(r"then 42")
        someone.type("exit 3\n")
        assert someone.leave() == 3


def test_the_user_is_notified_when_the_jail_is_closed(place: Path) -> None:
    with person(place) as someone:
        someone.see(r"\$ ")
        someone.type("kill -9 $$\n")
        assert someone.leave() == 137
        someone.see("hutch: The jail is closed; you are back on this machine.")


class Typist(Person):
    """A user at a terminal, with a shell of this machine."""

    program = ("bash", "--norc", "-i")


@pytest.mark.parametrize("command", ["sed s/call/answer/", "sh -c 'sed s/call/answer/; true'"])
def test_ctrl_z_suspends_a_command_and_fg_continues_it(place: Path, command: str) -> None:
    someone = Typist(place, PS1="host> ")
    try:
        someone.see("host> ")
        someone.type(f"{HUTCH} shell -- {command}\n")
        someone.see(r"shell -- .*\r\n")
        someone.type("call-1\n")
        someone.see("answer-1")
        someone.type("\x1a")
        someone.see(r"Stopped.*host> ")
        someone.type("echo here $((40 + 2)); fg\n")
        someone.see("here 42.*shell -- ")
        someone.type("call-2\n")
        someone.see("answer-2")
        someone.type("\x03")
        someone.see("host> ")
        someone.type("echo code $?; exit 0\n")
        someone.see("code 130")
        assert someone.leave() == 0
    finally:
        someone.close()


def test_ctrl_z_inside_goes_to_the_shell(place: Path) -> None:
    with person(place, "--", "bash", "--norc") as someone:
        someone.see(r"\$ ")
        someone.type("sh -c 'echo be''gun; exec sleep 1000'\n")
        someone.see("\nbegun\r\n")
        someone.type("\x1a")
        someone.see("Stopped +sh -c .*sleep 1000")
        someone.type("exit 3\nexit 3\n")
        assert someone.leave() == 3


def test_a_full_screen_program(place: Path) -> None:
    with person(place, "--", "vim.tiny", "-u", "NONE", "notes") as someone:
        someone.see(r"\x1b\[\?1049h.*notes")
        someone.type("iwritten in vim\x1b:wq\r")
        assert someone.leave() == 0
    assert (place / "work" / "notes").read_text() == "written in vim\n"


def test_the_terminal_is_reset_after_a_killed_program(place: Path) -> None:
    with person(place, "--timeout", "2", "--", "vim.tiny", "-u", "NONE", "notes") as someone:
        someone.see(r"\x1b\[\?1049h")
        assert someone.leave() == 5
        someone.see(r"\x1b\[\?1049l.*\x1b\[\?25h.*hutch: Killed after 2 s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_the_terminal_is_restored_when_hutch_is_ended(place: Path, number: signal.Signals) -> None:
    with person(place) as someone:
        someone.see(r"\$ ")
        assert termios.tcgetattr(someone.slave) != someone.modes
        someone.process.send_signal(number)
        assert someone.leave() == 128 + number


def test_the_terminal_is_restored_when_the_shell_is_killed(place: Path) -> None:
    with person(place) as someone:
        someone.see(r"\$ ")
        someone.type("kill -9 $$\n")
        assert someone.leave() == 137


def test_the_terminal_is_restored_when_a_program_is_missing(place: Path) -> None:
    with person(place, "--", "no-such-program") as someone:
        assert someone.leave() == 127
        someone.see("There is no program 'no-such-program'")


def test_a_flood_can_be_interrupted(place: Path) -> None:
    with person(place) as someone:
        someone.see(r"\$ ")
        someone.type("yes\n")
        someone.see("y\r\ny\r\ny\r\n")
        someone.type("\x03")
        someone.see(r"\^C.*\$ $")
        someone.type("exit 0\n")
        assert someone.leave() == 0


def test_redirected_output_is_not_a_terminal(place: Path) -> None:
    """On a terminal, but with standard output elsewhere, bytes stay as they are."""
    master, slave = pty.openpty()
    try:
        ran = subprocess.run(
            ["setsid", "-c", HUTCH, "shell", "--", "sh", "-c", "echo line; test -t 1 || echo no terminal"],
            cwd=place / "work",
            env=environment(place),
            stdin=slave,
            capture_output=True,
            timeout=DEADLINE_S,
        )
    finally:
        os.close(master)
        os.close(slave)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"line\nno terminal\n", b"")


# --- no jail ---


def test_without_a_jail_it_says_so_every_time(place: Path) -> None:
    ran = run(place, "--unsafe-no-jail", "--", "sh", "-c", "pwd; exit 6")
    assert (ran.returncode, ran.stdout) == (6, f"{place}/work\n".encode())
    assert ran.stderr.startswith(b"hutch: WARNING: NO JAIL: ")
    with person(place, "--unsafe-no-jail") as someone:
        someone.see(r"hutch: \x1b\[1;41;97m NO JAIL: ")
        someone.type("exit 4\n")
        assert someone.leave() == 4


def crippled(place: Path, *bwrap: str) -> "subprocess.CompletedProcess[bytes]":
    """Run `hutch shell` where a jail cannot be made, as an ordinary user."""
    shutil.rmtree(place / "home")  # of another user
    (place / "home").mkdir(mode=0o777)
    place.chmod(0o777)
    tree = readable_tree()
    return subprocess.run(
        [
            "bwrap",
            "--bind",
            "/",
            "/",
            "--dev-bind",
            "/dev",
            "/dev",
            *bwrap,
            tree.python,
            *("-c", "from hutch.cli.main import main; raise SystemExit(main())"),
            "shell",
            "--",
            "touch",
            "made",
        ],
        cwd=place / "work",
        env=environment(place) | tree.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
        user=NOBODY if IS_ROOT else None,
        group=NOBODY if IS_ROOT else None,
        extra_groups=[] if IS_ROOT else None,
    )


@pytest.mark.parametrize(
    ("cripple", "fix"),
    [
        (("--ro-bind", "/dev/null", "/usr/bin/bwrap"), b"apt-get install -y bubblewrap"),
        (("--unshare-user", "--disable-userns"), b"user namespaces"),
    ],
    ids=["no bwrap", "no user namespaces"],
)
def test_no_jail_no_run(place: Path, cripple: tuple[str, ...], fix: bytes) -> None:
    ran = crippled(place, *cripple)
    assert ran.returncode == 6, ran.stderr
    assert ran.stderr.startswith(b"hutch: No jail, so nothing was run. ")
    assert fix in ran.stderr and b"hutch doctor" in ran.stderr
    assert not (place / "work" / "made").exists()


def test_hard_links_to_outside_files_are_reported_once(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir(mode=0o755)
    (tmp_path / "elsewhere").write_text("x")
    (work / "here").hardlink_to(tmp_path / "elsewhere")
    result = []
    for _ in range(2):
        done = subprocess.run(
            [Path(sys.executable).with_name("hutch"), "shell", "-w", work, "--", "true"],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env={**os.environ, "HUTCH_HOME": str(tmp_path / "home")},
        )
        assert done.returncode == 0
        result.append("1 files here are hard links to files elsewhere" in done.stderr)
    assert result == [True, False]
