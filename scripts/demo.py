"""`make demo`: one run with the default settings, in a new directory that is removed at the end.

It creates a bare repository from a sample with a failing test. The agent gets a prompt,
runs the tests in its jail, fixes the code, runs them again and opens a pull request.
Its replies come from a script, so no key is needed; its actions are real. Then commands
in the jail fail to escape, and the record is verified. In a copy one word is changed, to
show that verification notices it.

`demo.py DIRECTORY` creates that directory, which must not exist yet, and does not remove it.
"""

import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "samples" / "slugs"
HUTCH = Path(sys.executable).with_name("hutch")
# Without variables that select another repository: git sets them for its hooks.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PROMPT = "Make the failing test pass."
WALLS = (
    ("It cannot change your system,", "touch /usr/bin/owned", 1),
    ("it cannot see your files,", "ls -A /root /home/*/.ssh", 2),
    ("and it has no network:", "bash -c 'echo > /dev/tcp/192.0.2.1/80'", 1),
)


class Failed(Exception):
    """The demo cannot continue; the text gives the reason."""


class Ended(Exception):
    """A signal requested the end."""


class Commands:
    """Runs one command after the other, until a signal requests the end.

    The handler raises nothing: an exception while a process starts would leave that process running.
    """

    def __init__(self) -> None:
        self.signal = 0
        self._running: subprocess.Popen[bytes] | None = None
        for number in ENDS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # under nohup
                signal.signal(number, self._end)

    def run(self, words: Sequence[str | Path], **options: Any) -> int:
        """Run a command and return its exit code."""
        self.check()
        with subprocess.Popen(words, env=options.pop("env", ENVIRONMENT), **options) as self._running:
            if self.signal:  # it arrived while the command was started
                self._running.terminate()
            code = self._running.wait()
        self._running = None
        self.check()
        return code

    def check(self) -> None:
        if self.signal:
            raise Ended

    def _end(self, number: int, _: object) -> None:
        self.signal = self.signal or number
        if self._running is not None:
            self._running.terminate()


def say(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    sys.stdout.write(f"\n{bold}{text}{plain}\n")
    sys.stdout.flush()


class Demo:
    """The demo in one directory: the repository, a clone of it, and Hutch's own data."""

    def __init__(self, home: Path, commands: Commands) -> None:
        self.home, self.commands = home, commands
        self.repository, self.copy, self.forged = home / "slugs.git", home / "slugs", home / "forged"

    def show(self) -> None:
        self.make_repository()
        say("A repository with a failing test, and a prompt:")
        self.hutch("run", PROMPT, "--repo", str(self.repository), "--model", "scripted:demo")
        say("The pull request is a branch of the repository. Merge it:")
        self.hutch("changes", "list")
        self.hutch("changes", "merge", "last")
        self.git("pull", "--quiet", "origin", "main", cwd=self.copy)
        say("The limits of the agent's jail:")
        for what, command, expected in WALLS:
            sys.stdout.write(f"{what}\n")
            self.hutch("shell", "--no-log", "-w", str(self.copy), "--", "sh", "-c", command, expect=expected)
        say("The log has recorded everything. Its record can be exported and verified offline:")
        self.hutch("log", "last")
        self.hutch("export", "last", "-o", "record.zip")
        self.hutch("verify", "record.zip")
        say("One word is changed in a copy of the database, and verification fails:")
        self.forge()
        self.hutch("export", "last", "-o", "forged.zip", home=self.forged)
        self.hutch("verify", "forged.zip", expect=3)

    def hutch(self, *arguments: str, home: Path | None = None, expect: int = 0) -> None:
        """Run and show a command. Raise `Failed` if it has another exit code than expected."""
        setting = f"HUTCH_HOME={home.relative_to(self.home)} " if home else ""
        shown = " ".join(f'"{word}"' if " " in word else word for word in arguments)
        shown = shown.replace(f"{self.home}/", "").replace(f"{ROOT}/", "")
        sys.stdout.write(f"$ {setting}hutch {shown}\n")
        sys.stdout.flush()
        environment = {**ENVIRONMENT, "HUTCH_HOME": str(home or self.home)}
        options = {"cwd": self.home, "stderr": subprocess.STDOUT, "env": environment}
        code = self.commands.run([HUTCH, *arguments], **options)
        if code != expect:
            raise Failed(f"that ended with {code}, not {expect}")

    def git(self, *words: str, cwd: Path) -> None:
        identity = ("-c", "user.name=You", "-c", "user.email=you@localhost", "-c", "init.defaultBranch=main")
        code = self.commands.run(["git", *identity, *words], cwd=cwd, stdout=subprocess.DEVNULL)
        if code:
            raise Failed(f"git {words[0]} ended with {code}")

    def make_repository(self) -> None:
        """Create a bare repository of the sample, and a clone like a user's."""
        shutil.copytree(SAMPLE, self.copy)
        self.git("init", "--quiet", cwd=self.copy)
        self.git("add", ".", cwd=self.copy)
        self.git("commit", "--quiet", "-m", "Slugs", cwd=self.copy)
        bare = ("--bare", "--no-hardlinks", str(self.copy), str(self.repository))
        self.git("clone", "--quiet", *bare, cwd=self.home)
        self.git("remote", "add", "origin", str(self.repository), cwd=self.copy)

    def forge(self) -> None:
        """Change one word of the record in a copy, as a user with access to the database could."""
        (self.forged / "data").mkdir(parents=True)
        for name in ("hutch.db", "hutch.db-wal", "keys", "blobs"):
            source = self.home / "data" / name
            if source.is_dir():
                shutil.copytree(source, self.forged / "data" / name)
            elif source.exists():
                shutil.copy(source, self.forged / "data" / name)
        with closing(sqlite3.connect(self.forged / "data" / "hutch.db", isolation_level=None)) as database:
            database.execute(
                "UPDATE events"
                " SET payload = CAST(replace(CAST(payload AS TEXT), '2 passed', '3 passed') AS BLOB)"
            )


def how_to_go_on() -> None:
    say("Next steps, in your own repository:")
    environment = os.path.relpath(HUTCH.with_name("activate"), Path.cwd())
    sys.stdout.write(
        f"  . {environment}\n"
        "  hutch doctor                               # checks this machine\n"
        "  hutch config set-secret anthropic_api_key  # or openai_api_key, gemini_api_key; then:\n"
        '  hutch run "Fix the bug in …" --repo ~/project  # works on a copy, leaves a branch\n'
        "  hutch changes list                         # its proposed changes; show, diff, merge, close\n"
        "  hutch shell -w ~/project                   # a jailed terminal; `-- CMD` runs one command\n"
        "  hutch up --detach                          # a server with a web app; open its link\n"
    )


def main() -> int:
    commands, named, made = Commands(), sys.argv[1:], False
    # The name is chosen before the directory is created, so an interruption in between leaves nothing behind.
    home = Path(
        named[0] if named else f"{tempfile.gettempdir()}/hutch-demo-{secrets.token_hex(8)}"
    ).absolute()
    kept = bool(named)
    try:
        make(home)
        made = True
        Demo(home, commands).show()
    except Failed as failed:
        kept = True
        return stop(f"{failed}. Its data is kept in {home}" if made else f"{failed}.", 1)
    except Ended:
        about = f" Its data is kept in {home}" if kept else ""
        return stop(f"ended by {signal.Signals(commands.signal).name}.{about}", 128 + commands.signal)
    finally:
        if not kept:
            shutil.rmtree(home, ignore_errors=True)
    how_to_go_on()
    return 0


def make(home: Path) -> None:
    try:
        home.mkdir(mode=0o700)
    except FileExistsError:
        raise Failed(f"'{home}' exists. Choose a new directory") from None
    except OSError as error:
        raise Failed(
            f"'{home}' cannot be created: {error.strerror}. Choose one in an existing directory"
        ) from None


def stop(why: str, code: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"demo: {why}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
