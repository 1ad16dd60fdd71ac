"""Wait for the run of a prompt, and show it as text or JSON."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.render.run_output import PlainView
from hutch.cli.render.transcript import Transcript
from hutch.cli.server_requests import names_of_users, short
from hutch.cli.session_event_stream import Update, follow
from hutch.cli.signals_and_closed_output import stop_when_unread
from hutch.domain.errors import Unavailable
from hutch.domain.no_model_messages import BY_OPTION, is_offline_script, no_model_on_server_message
from hutch.system.lazy_dataclass import dataclass

ENDS = ("run.ended", "delivery.ended")
WITHOUT_WORK = ("idle", "parked", "paused")  # states in which a session does nothing until a user acts
MAX_RUNS = 200
POLL_INTERVAL_S = 0.5
DELIVERED = ("done", "tests_failing")  # outcomes after which a session that delivers reports the delivery


class JsonEntries:
    """Prints each entry as a line of JSON, as the server sends it."""

    def entry(self, entry: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(entry, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def delta(self, delta: Mapping[str, Any]) -> None:
        """Print nothing: the whole reply follows as an entry."""


@dataclass(slots=True)
class AwaitedRun:
    """The run to wait for: the session's first, or the one that processes an input."""

    input: int | None = None  # the number of the input
    run_id: str = ""
    delivers: bool = False  # its work is delivered after it has ended
    _outcome: str = ""
    _is_next: bool = False  # the input goes to the run that is queued next
    _is_current: bool = False  # the input goes to the current run

    def ended(self, event: Mapping[str, Any]) -> int | None:
        """The exit code of the run's outcome, once it has ended."""
        kind = event.get("type")
        is_ours = self.input is not None and event.get("input") == self.input
        if kind == "input.processed" and is_ours and event.get("refused"):
            return exit_codes.OUTCOMES["cancelled"]  # a message to a run that was cancelled first
        if kind == "input.processed" and is_ours:
            self._is_next = event.get("kind") == "prompt"
            self._is_current = not self._is_next
        elif kind == "message.sent" and is_ours:
            self._is_current = True
        elif kind == "run.queued" and not self.run_id and (self._is_next or self.input is None):
            self.run_id = str(event.get("run_id"))
        elif kind == "run.ended" and (
            self._is_current or (self.run_id and event.get("run_id") == self.run_id)
        ):
            self._outcome = str(event.get("outcome"))
            if not self.delivers or self._outcome not in DELIVERED:
                return _exit_of(self._outcome, event)
            self.run_id = str(event.get("run_id"))
        elif kind == "delivery.ended" and self._outcome and event.get("run_id") == self.run_id:
            # Failing tests are a result, not a failed delivery, as without a server.
            is_lost = event.get("outcome") == "failed" and not event.get("failing")
            # A proposed change is a success although its tests fail as they did before it.
            is_proposed = event.get("outcome") == "proposed"
            return _exit_of("failed" if is_lost else "done" if is_proposed else self._outcome, event)
        elif kind == "session.ended":
            return exit_codes.OUTCOMES["cancelled"]
        return None

    def ended_by_row(self, run: Mapping[str, Any]) -> int:
        """The exit code of a run that has ended, from its row."""
        self.run_id = str(run["id"])
        code = self.ended({"type": "run.ended", "run_id": self.run_id, "outcome": run["outcome"]})
        if code is None and run["delivered"]:
            code = self.ended({**run["delivered"], "type": "delivery.ended", "run_id": self.run_id})
        return _exit_of(str(run["outcome"]), {}) if code is None else code


def _exit_of(outcome: str, event: Mapping[str, Any]) -> int:
    """The exit code that a local run with this outcome would have."""
    if outcome == "failed":
        return exit_codes.FAMILIES.get(str(event.get("code")), exit_codes.UNAVAILABLE)
    return exit_codes.OUTCOMES.get(outcome, exit_codes.UNAVAILABLE)


async def make_view(
    client: Client, as_json: bool, session: Mapping[str, Any] | None = None
) -> JsonEntries | PlainView:
    if as_json:
        return JsonEntries()
    me, names = await names_of_users(client, session)
    return PlainView(Transcript(me, names))


async def wait_for(client: Client, session_id: str, awaited: AwaitedRun, *, after: int, as_json: bool) -> int:
    """Show a run until it ends; return the exit code of its outcome."""
    view = await make_view(client, as_json)
    is_offline = False  # the offline script runs in place of a model
    async with stop_when_unread(), aclosing(follow(client, session_id, after=after)) as updates:
        async for update in updates:
            if update.entry is None:
                _show_retry(view, update)
                continue
            view.entry(update.entry)
            event = update.entry["event"]
            if event.get("type") == "run.started":
                is_offline = is_offline_script(str(event.get("model")))
            if event.get("type") in ("approval.requested", "question.asked"):
                sys.stderr.write(
                    f"hutch: The agent waits for your answer. Answer with: hutch attach {short(session_id)}\n"
                )
            if (event.get("erased") or event.get("withheld")) and event.get("type") in ENDS:
                return awaited.ended_by_row(await _ended_run(client, session_id, awaited))
            if (code := awaited.ended(event)) is not None:
                if is_offline:
                    raise Unavailable(no_model_on_server_message(BY_OPTION))
                return code
    return exit_codes.INTERRUPTED


async def _ended_run(client: Client, session_id: str, awaited: AwaitedRun) -> Mapping[str, Any]:
    """The awaited run, once it has ended. An erased event does not name its run."""
    while True:
        runs = (await client.get(f"/sessions/{session_id}/runs", limit=MAX_RUNS))["items"]
        by_id = [run for run in runs if run["id"] == awaited.run_id]
        by_input = [run for run in runs if run["input"] == (awaited.input or 0)]
        run: dict[str, Any] = (by_id or by_input or runs)[0]
        if run["state"] == "ended":
            return run
        await asyncio.sleep(POLL_INTERVAL_S)


async def show_all(
    client: Client, session: Mapping[str, Any], *, after: int, as_json: bool, until_idle: bool = False
) -> None:
    """Show every entry until the session ends, or until it has nothing to do. Otherwise say that it waits."""
    view = await make_view(client, as_json, session)
    head, shown = _head(session), after
    if head <= after and await _is_idle(client, session["id"], after, is_last=until_idle):
        return
    async with (
        stop_when_unread(),
        aclosing(follow(client, session["id"], after=after)) as updates,
        aclosing(_with_pauses(updates)) as pausing,
    ):
        async for update in pausing if until_idle else updates:
            if update is None:  # the state of a session changes a moment after its last entry
                if shown >= head and await _is_idle(client, session["id"], shown, is_last=True):
                    return
                continue
            if update.entry is None:
                _show_retry(view, update)
                continue
            view.entry(update.entry)
            shown = update.entry["seq"]
            has_ended = update.entry["event"].get("type") in ENDS and shown > head
            if (shown == head or has_ended) and not until_idle:
                await _is_idle(client, session["id"], shown, is_last=False)


async def _with_pauses(updates: AsyncGenerator[Update]) -> AsyncGenerator[Update | None]:
    """The updates, and None whenever none came for a moment."""
    coming: asyncio.Future[Update] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(updates))
            if not (await asyncio.wait([coming], timeout=POLL_INTERVAL_S))[0]:
                yield None
                continue
            try:
                update = coming.result()
            except StopAsyncIteration:
                return
            coming = None
            yield update
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def _is_idle(client: Client, session_id: str, shown: int, *, is_last: bool) -> bool:
    """True if nothing more is shown, since the session has nothing to do. Otherwise say what a follower
    waits for."""
    session = await client.get(f"/sessions/{session_id}")
    state = session["state"]
    if state in WITHOUT_WORK and not is_last:
        sys.stdout.flush()
        sys.stderr.write(
            f"hutch: The session is {state}. Its next events are shown until it ends; Ctrl-C stops that, "
            "and so does --until-idle.\n"
        )
        sys.stderr.flush()
    return is_last and state in WITHOUT_WORK and _head(session) <= shown


def _head(session: Mapping[str, Any]) -> int:
    return int((session["head"] or {}).get("seq", 0))


def _show_retry(view: JsonEntries | PlainView, update: Update) -> None:
    """Show that a request to the model is repeated. Replies are shown when they are complete."""
    if update.delta is not None and update.delta.get("kind") == "again":
        view.delta(update.delta)
