"""`make demo`: the main job on the embedded defaults, in one directory that can be thrown away.

A bare repository is made of a sample with a failing test. The agent gets a prompt,
runs the tests in its jail, mends the code, runs them again and leaves a pull
request. What it says is from a script, so that no key is needed; what it does is
real. Then the jail shows its walls, and the record of it all is verified; in a copy
one word is changed, to show that it does not go unnoticed.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / ".demo"
SAMPLE, SCRIPT = ROOT / "samples" / "slugs", ROOT / "samples" / "slugs.yaml"
REPOSITORY, COPY, FORGED = HOME / "slugs.git", HOME / "slugs", HOME / "forged"
HUTCH = Path(sys.executable).with_name("hutch")
PROMPT = "Make the failing test pass."
WALLS = (
    ("Your system cannot be changed,", "touch /usr/bin/owned", 1),
    ("your files are not there,", "ls -A /root /home/*/.ssh", 2),
    ("and there is no way out to the network:", "bash -c 'echo > /dev/tcp/192.0.2.1/80'", 1),
)


def say(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    sys.stdout.write(f"\n{bold}{text}{plain}\n")
    sys.stdout.flush()


def hutch(*arguments: str, home: Path = HOME, expect: int = 0) -> None:
    """Run the real command, show it, and stop when it does not end as expected."""
    setting = "" if home == HOME else f"HUTCH_HOME={home.relative_to(HOME)} "
    shown = " ".join(f'"{word}"' if " " in word else word for word in arguments)
    sys.stdout.write(f"$ {setting}hutch {shown.replace(f'{ROOT}/', '')}\n")
    sys.stdout.flush()
    environment = {**os.environ, "HUTCH_HOME": str(home)}
    done = subprocess.run([HUTCH, *arguments], cwd=HOME, stderr=subprocess.STDOUT, env=environment)
    if done.returncode != expect:
        raise SystemExit(f"demo: that ended with {done.returncode}, not {expect}")


def git(*words: str, cwd: Path) -> None:
    identity = ("-c", "user.name=You", "-c", "user.email=you@localhost", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *words], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def make_repository() -> None:
    """A bare repository of the sample, and a clone of it as you would have one."""
    shutil.copytree(SAMPLE, COPY)
    git("init", "--quiet", cwd=COPY)
    git("add", ".", cwd=COPY)
    git("commit", "--quiet", "-m", "Slugs", cwd=COPY)
    git("clone", "--quiet", "--bare", "--no-hardlinks", str(COPY), str(REPOSITORY), cwd=HOME)
    git("remote", "add", "origin", str(REPOSITORY), cwd=COPY)


def forge() -> None:
    """Change one word of what was recorded, as somebody with access to the database might; in a copy."""
    (FORGED / "data").mkdir(parents=True)
    for name in ("hutch.db", "hutch.db-wal", "keys", "blobs"):
        source = HOME / "data" / name
        if source.is_dir():
            shutil.copytree(source, FORGED / "data" / name)
        elif source.exists():
            shutil.copy(source, FORGED / "data" / name)
    with closing(sqlite3.connect(FORGED / "data" / "hutch.db", isolation_level=None)) as database:
        database.execute(
            "UPDATE events SET payload = CAST(replace(CAST(payload AS TEXT), '2 passed', '3 passed') AS BLOB)"
        )


def main() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    make_repository()
    say("A repository with a failing test, and a prompt:")
    hutch("run", PROMPT, "--repo", str(REPOSITORY), "--model", f"scripted:{SCRIPT}")
    say("The pull request is a branch of the repository. Merge it:")
    hutch("changes", "list")
    hutch("changes", "merge", "last")
    git("pull", "--quiet", "origin", "main", cwd=COPY)
    say("The walls of the jail that it worked in:")
    for what, command, expected in WALLS:
        sys.stdout.write(f"{what}\n")
        hutch("shell", "-w", str(COPY), "--", "sh", "-c", command, expect=expected)
    say("All of it is in the log, whose record can be taken anywhere and checked offline:")
    hutch("log", "last")
    hutch("export", "last", "-o", "record.zip")
    hutch("verify", "record.zip")
    say("One word changed behind the back of a copy, and it shows:")
    forge()
    hutch("export", "last", "-o", "forged.zip", home=FORGED)
    hutch("verify", "forged.zip", expect=3)
    how_to_go_on()


def how_to_go_on() -> None:
    say("How to go on:")
    here = Path.cwd()
    copy, environment = (os.path.relpath(path, here) for path in (COPY, HUTCH.with_name("activate")))
    sys.stdout.write(
        f"  . {environment}\n"
        f"  export HUTCH_HOME={HOME}\n"
        "  hutch config set-secret anthropic_api_key  # or openai_api_key, gemini_api_key; then:\n"
        '  hutch run "Fix the bug in …"   # works on a copy, leaves a branch; `hutch changes` merges it\n'
        f"  hutch shell -w {copy}  # a jailed terminal on what was mended\n"
        f"  hutch shell -w {copy} -- python3 -m unittest  # or one command\n"
        "  hutch log last             # what happened; hutch export last takes it along\n"
        "  hutch up --detach          # a server, whose work goes on without you: hutch sessions new\n"
        "  hutch doctor               # what this machine can do\n"
    )


if __name__ == "__main__":
    main()
