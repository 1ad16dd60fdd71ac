"""An edit from the first copy to the last save: the editor runs while both sides are watched."""

import asyncio
import signal
import sys
from contextlib import aclosing, suppress

import typer

from hutch.cli import exit_codes
from hutch.cli.editing.editor import run_editor
from hutch.cli.editing.file_sync import FileSync
from hutch.cli.server_requests import short
from hutch.cli.signals_and_closed_output import ended_by
from hutch.domain.errors import Conflict, HutchError, TooManyRequests, Unavailable
from hutch.domain.signal_names import signal_name
from hutch.system.task_cancellation import running
from hutch.system.terminal_safe_text import visible

POLL_INTERVAL_S = 0.2  # between looks at the local copy
RETRY_INTERVAL_S = 3.0  # after a failed attempt to reach the session
CHANGED = ("file.changed", "files.changed")
CHOICES = "[e]dit a merge of both, use [m]ine, use the [s]ession's, or [k]eep both as they are"


class EditSession:
    """One run of `hutch edit`."""

    def __init__(self, sync: FileSync, session_id: str, path: str, editor: list[str]) -> None:
        self._sync, self._session_id, self._path, self._editor = sync, session_id, path, editor
        self._wake = asyncio.Event()
        self._syncing: asyncio.Task[None] | None = None
        self._has_failed = False  # the editor
        self._problem: HutchError | None = None  # the last one that a retry may solve
        self._refused: HutchError | None = None  # one that no retry solves

    async def run(self) -> int:
        """Edit, and return the exit code."""
        if await self._sync.start():
            _say(f"Continuing your unfinished edit of {visible(self._path)}.")
        kept = True
        try:
            with ended_by(signal.SIGTERM, signal.SIGHUP) as came:
                try:
                    await self._edit()
                except asyncio.CancelledError:
                    if not came:
                        raise
            code = await self._finish()
            kept = self._sync.is_pending
            return code
        finally:
            self._sync.copy.close(keep=kept)

    async def _edit(self) -> None:
        before = self._sync.copy.stamp()  # the editor may save before a task runs
        try:
            async with running(self._watch(before), self._follow(), self._keep_synced()):
                code = await run_editor(self._editor, self._sync.copy.path)
        finally:
            if self._syncing is not None:
                await self._syncing
        if code:
            how = f"signal {signal_name(-code)}" if code < 0 else f"exit code {code}"
            _say(f"The editor ended with {how}. What it saved before is in the session.")
            self._has_failed = True

    async def _watch(self, seen: object) -> None:
        """Notice saves of the editor: changes of the file since `seen`."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            now = self._sync.copy.stamp()
            if now != seen:
                seen = now
                self._wake.set()

    async def _follow(self) -> None:
        """Notice changes of the file in the session."""
        while True:
            with suppress(Unavailable, TooManyRequests, OSError):
                async with aclosing(self._sync.remote.follow()) as updates:
                    async for update in updates:
                        event = (update.entry or {}).get("event") or {}
                        if event.get("type") in CHANGED and event.get("path", self._path) == self._path:
                            self._wake.set()
                return  # the session has ended
            await asyncio.sleep(RETRY_INTERVAL_S)

    async def _keep_synced(self) -> None:
        while self._refused is None:
            await self._wake.wait()
            self._wake.clear()
            # When the editor ends, a save that was sent already must still be counted.
            self._syncing = asyncio.create_task(self._try_sync())
            await asyncio.shield(self._syncing)
            if self._problem is not None:
                await asyncio.sleep(RETRY_INTERVAL_S)
                self._wake.set()

    async def _try_sync(self) -> None:
        """Synchronize; the screen belongs to the editor, so problems are kept for the end."""
        try:
            await self._sync.sync()
            self._problem = None
        except (Unavailable, TooManyRequests, Conflict, OSError) as error:
            self._problem = error if isinstance(error, HutchError) else Unavailable(str(error))
        except HutchError as error:
            self._refused = error

    async def _finish(self) -> int:
        """Save the last changes, resolve a conflict, and report the result."""
        self._refused = None
        await self._try_sync()
        while self._sync.collision is not None and self._problem is None and sys.stdin.isatty():
            if not await self._settle():
                break
        problem = self._refused or self._problem
        if self._sync.is_pending:
            return self._report_unsent_copy(problem)
        if problem is not None:
            raise problem
        counts = self._sync.counts
        parts = [f"saved {_times(counts.saves)}" if counts.saves else "nothing was saved"]
        parts += [f"merged with changes by others {_times(counts.merges)}"] if counts.merges else []
        parts += [f"changed by others {_times(counts.received)}"] if counts.received else []
        _say(f"{visible(self._path)}: {', '.join(parts)}.")
        return exit_codes.UNAVAILABLE if self._has_failed else exit_codes.OK

    async def _settle(self) -> bool:
        """Ask how a collision ends; False if both versions stay as they are."""
        collision = self._sync.collision
        assert collision is not None
        _say(f"You and others changed the same lines of {visible(self._path)}.")
        answer = await asyncio.to_thread(_ask)
        copy = self._sync.copy
        if answer == "e":
            marked = collision.marked if collision.marked is not None else collision.mine
            merging = copy.directory / "file" / f"merge-{copy.path.name}"
            await asyncio.to_thread(merging.write_bytes, marked)
            await run_editor(self._editor, merging)
            data = await asyncio.to_thread(merging.read_bytes)
            if data == marked:
                _say("The merge was not saved.")
                return True
        elif answer in ("m", "s"):
            data = collision.mine if answer == "m" else collision.theirs
        else:
            return False
        try:
            await self._sync.overwrite(data)
        except Conflict:
            _say("The session's version has changed again.")
            await self._try_sync()
        return True

    def _report_unsent_copy(self, problem: HutchError | None) -> int:
        copy, collision = self._sync.copy, self._sync.collision
        quoted = visible(str(copy.path))
        if collision is not None:
            _say(f"Both versions of {visible(self._path)} are kept. Yours: {quoted}")
            if collision.marked is not None:
                marked = copy.directory / "file" / f"merge-{copy.path.name}"
                marked.write_bytes(collision.marked)
                _say(f"A merge with markers: {visible(str(marked))}")
        else:
            _say(f"{visible(self._path)} could not be saved: {problem} Your version is kept: {quoted}")
        _say(f"Continue with: hutch edit {short(self._session_id)} {visible(self._path)}")
        return exit_codes.code_of(problem) if problem is not None else exit_codes.NO


def _ask() -> str:
    try:
        answer = typer.prompt(f"hutch: {CHOICES}", default="k", show_default=False, err=True)
        return str(answer).strip()[:1].lower()
    except typer.Abort:
        return "k"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _say(text: str) -> None:
    sys.stderr.write(f"hutch: {text}\n")
    sys.stderr.flush()
