"""`make demo`: the main job on the embedded defaults, in one directory that can be thrown away.

A session is recorded, followed live by a second process, exported, and verified;
then one letter of the record is changed, to show that it does not go unnoticed.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from hutch import app, settings
from hutch.domain.events import MessageSent, SessionEnded, SessionOpened
from hutch.domain.ids import SessionId, new_session_id

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".demo"
HUTCH = Path(sys.executable).with_name("hutch")
STORY = (
    MessageSent(author="user", text="Everything said here is appended to one log."),
    MessageSent(author="hutch", text="Each event carries the hash of the one before it."),
    MessageSent(author="hutch", text="The process you are reading this in only follows."),
)


def say(text: str) -> None:
    sys.stdout.write(f"\n\033[1m{text}\033[0m\n" if sys.stdout.isatty() else f"\n{text}\n")
    sys.stdout.flush()


def hutch(*arguments: str, expect: int = 0) -> None:
    """Run the real command, show it, and stop when it does not end as expected."""
    sys.stdout.write(f"$ hutch {' '.join(arguments)}\n")
    sys.stdout.flush()
    done = subprocess.run([HUTCH, *arguments], cwd=HOME)
    if done.returncode != expect:
        raise SystemExit(f"demo: that ended with {done.returncode}, not {expect}")


async def record(session_id: SessionId) -> None:
    """Write the session while another process follows it."""
    async with app.event_log(settings.load().paths) as log:
        await log.append(session_id, [SessionOpened(purpose="demo", owner="you")])
        follower = await asyncio.create_subprocess_exec(HUTCH, "log", session_id, "--follow")
        for event in STORY:
            await asyncio.sleep(0.4)
            await log.append(session_id, [event])
        await log.append(session_id, [SessionEnded(outcome="done")])
        if await asyncio.wait_for(follower.wait(), 30):
            raise SystemExit("demo: the follower failed")


def forge(source: Path, target: Path) -> None:
    """Change one word in the middle of a record."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            new.writestr(entry, old.read(entry).replace(b"only follows", b"also forges!"))


def main() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    os.environ["HUTCH_HOME"] = str(HOME)
    session_id = new_session_id()
    say("A session is recorded; another process follows it:")
    asyncio.run(record(session_id))
    say("Its record can be taken anywhere and checked offline:")
    hutch("export", session_id, "-o", "record.zip")
    hutch("verify", "record.zip")
    say("One word changed, and it shows:")
    forge(HOME / "record.zip", HOME / "forged.zip")
    hutch("verify", "forged.zip", expect=3)
    say("How to go on:")
    sys.stdout.write(
        f"  export HUTCH_HOME={HOME}\n"
        f"  {HUTCH} log               # the sessions\n"
        f"  {HUTCH} log last          # what happened in the last one\n"
        f"  {HUTCH} doctor            # what this machine can do\n"
    )


if __name__ == "__main__":
    main()
