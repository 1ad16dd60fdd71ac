"""`make demo`: the best there is so far, on the embedded defaults, in one directory that can be thrown away.

A sample with a failing test is worked on inside a jail: the test is run, the code
is mended, the test is run again, and a few things are tried that a jail should
stop. Every command is in the session's log, which is exported and verified; then
one word in a copy of the database is changed, to show that it does not go unnoticed.
"""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from hutch import settings
from hutch.app import jails, records
from hutch.domain.events import Event, SessionEnded, SessionOpened
from hutch.domain.ids import SessionId, new_session_id

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / ".demo"
SAMPLE, COPY = ROOT / "samples" / "slugs", HOME / "slugs"
FORGED = HOME / "forged"
HUTCH = Path(sys.executable).with_name("hutch")
TEST = "python3 -m unittest 2>&1 | tail -n 12; test ${PIPESTATUS[0]} = 0"
MEND = """git apply - <<'END'
--- a/slugs.py
+++ b/slugs.py
@@ -8,4 +8,4 @@
     \"\"\"Small letters, digits and hyphens; accents are dropped, everything else separates.\"\"\"
-    plain = re.sub(r"[^a-z0-9]+", "-", title.lower())
-    plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
+    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
+    plain = re.sub(r"[^a-z0-9]+", "-", plain.lower())
     return plain.strip("-")
END"""
STEPS = (
    ("The test fails:", TEST, 1),
    ("The two steps are in the wrong order. Mend it:", MEND, 0),
    ("The test passes:", TEST, 0),
    ("The walls of the jail. Your system cannot be changed,", "touch /usr/bin/owned", 1),
    ("your files are not there,", "ls -A /root /home/*/.ssh", 2),
    ("and there is no way out to the network:", "cat /proc/net/route | tail -n +2 | grep .", 1),
)


def say(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    sys.stdout.write(f"\n{bold}{text}{plain}\n")
    sys.stdout.flush()


def hutch(*arguments: str, home: Path = HOME, expect: int = 0) -> None:
    """Run the real command, show it, and stop when it does not end as expected."""
    setting = "" if home == HOME else f"HUTCH_HOME={home.relative_to(HOME)} "
    sys.stdout.write(f"$ {setting}hutch {' '.join(arguments)}\n")
    sys.stdout.flush()
    env = os.environ | {"HUTCH_HOME": str(home)}
    done = subprocess.run([HUTCH, *arguments], cwd=HOME, env=env, stderr=subprocess.STDOUT)
    if done.returncode != expect:
        raise SystemExit(f"demo: that ended with {done.returncode}, not {expect}")


async def work(session_id: SessionId) -> None:
    """Do the steps in a jail, each command in the log as it happens."""
    loaded = settings.load()
    told: list[Event] = []
    policy = jails.jail_policy(loaded.settings)
    async with records.event_log(loaded.paths) as log, jails.open_jail(COPY, policy) as jail:
        await log.append(session_id, [SessionOpened(purpose="make demo", owner="you")])
        shells = jails.Shells(jail, on_event=lambda event: told.append(jails.as_event(event)))
        shell = shells.shell(program="/bin/bash")
        for what, command, expected in STEPS:
            say(what)
            sys.stdout.write(f"jail$ {command}\n")
            async for chunk in shell.stream(command):
                sys.stdout.write(chunk.data.decode(errors="replace"))
                sys.stdout.flush()
            assert chunk.result is not None
            await log.append(session_id, told)
            told.clear()
            if chunk.result.exit_code != expected:
                raise SystemExit(f"demo: that ended with {chunk.result.exit_code}, not {expected}")
        await log.append(session_id, [SessionEnded(outcome="done")])
    await shells.close()


def forge() -> None:
    """Change one word of what was recorded, as somebody with access to the database might; in a copy."""
    shutil.copytree(HOME / "data", FORGED / "data")
    with closing(sqlite3.connect(FORGED / "data" / "hutch.db", isolation_level=None)) as database:
        database.execute(
            "UPDATE events SET payload = CAST(replace(CAST(payload AS TEXT), 'owned', 'found') AS BLOB)"
        )


def main() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    os.environ["HUTCH_HOME"] = str(HOME)
    shutil.copytree(SAMPLE, COPY)
    session_id = new_session_id()
    asyncio.run(work(session_id))
    say("What has changed:")
    changed = [os.path.relpath(place / "slugs.py", ROOT) for place in (SAMPLE, COPY)]
    subprocess.run(["git", "--no-pager", "diff", "--no-index", "--", *changed], cwd=ROOT)
    say("All of it is in the log, whose record can be taken anywhere and checked offline:")
    hutch("log", session_id)
    hutch("export", session_id, "-o", "record.zip")
    hutch("verify", "record.zip")
    say("One word changed behind the back of a copy, and it shows:")
    forge()
    hutch("export", session_id, "-o", "forged.zip", home=FORGED)
    hutch("verify", "forged.zip", expect=3)
    say("How to go on:")
    here = Path.cwd()
    copy, environment = (os.path.relpath(path, here) for path in (COPY, HUTCH.with_name("activate")))
    sys.stdout.write(
        f"  . {environment}\n"
        f"  export HUTCH_HOME={HOME}\n"
        f"  hutch shell -w {copy}  # a jailed terminal on what was mended\n"
        f"  hutch shell -w {copy} -- python3 -m unittest  # or one command\n"
        "  hutch log last             # what happened; hutch export last takes it along\n"
        "  hutch doctor               # what this machine can do\n"
    )


if __name__ == "__main__":
    main()
