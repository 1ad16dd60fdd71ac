"""Reads the history of a run from its log."""

import json
from collections.abc import Sequence

from hutch.agent.conversation import Conversation
from hutch.domain.change_title import first_line
from hutch.domain.errors import NotFound
from hutch.domain.events import (
    ChangeProposed,
    Entry,
    RanTests,
    RunEnded,
    RunStarted,
    SessionEnded,
    SnapshotTaken,
)
from hutch.llm.interface import Call
from hutch.system.lazy_dataclass import dataclass

BEFORE = "before the run"  # the reason of a run's first snapshot
# Reasons of snapshots before the last tests, and of files that tests leave behind.
BY_TESTS = ("when the agent was done", "after run_tests", "after the run")


@dataclass(slots=True)
class RunHistory:
    """A run, with the facts about its session that matter to it."""

    started: RunStarted
    conversation: Conversation
    start: int = 0  # see `start_of`
    first: int = 0  # the run's
    last: int = 0  # the newest
    ended: RunEnded | None = None  # how it ended, if it did
    tests: RanTests | None = None  # the last run of them
    tested: bool = False  # whether they were run since the last change
    over: bool = False  # whether the session has ended

    @property
    def title_and_summary(self) -> tuple[str, str]:
        """The final title and summary. Without a title, the first line of the prompt."""
        title, summary = self.own_words
        return title or first_line(self.started.prompt), summary

    @property
    def own_words(self) -> tuple[str, str]:
        """The agent's final title and summary; each is empty if the agent gave none."""
        match self.conversation.last:
            case Call() as call:
                given = _given(call)
                return given.get("title", ""), given.get("summary", "")
            case text:
                return "", text or ""


def read_run_history(entries: Sequence[Entry], run_id: str | None = None) -> RunHistory:
    """Read the history of a run, the last one when none is named."""
    found: RunHistory | None = None
    start = newest = upto = 0
    for entry in entries:
        event = entry.event
        if isinstance(event, RunStarted) and found and run_id:
            break  # the next run: later entries are not about this one
        upto += 1
        match event:
            case SnapshotTaken():
                same = event.snapshot == newest
                start, newest = start or event.snapshot, event.snapshot
                if found and not same and event.reason != BEFORE:
                    found.last = newest
                    found.tested = found.tested and event.reason in BY_TESTS
            case RunStarted() if run_id in (None, event.run_id):
                found = RunHistory(event, Conversation(), start, newest, newest)
            case RanTests() if found and event.run_id == found.started.run_id:
                found.tests, found.tested = event, True
            case RunEnded() if found and event.run_id == found.started.run_id:
                found.ended = event
            case SessionEnded() if found:
                found.over = True
    if found is None:
        raise NotFound(f"There is no run '{run_id}' in this log.")
    found.conversation = Conversation.of(entries[:upto])
    return found


def _given(call: Call) -> dict[str, str]:
    try:
        return {str(name): str(value) for name, value in json.loads(call.arguments).items()}
    except (
        ValueError,
        AttributeError,
        RecursionError,
    ):  # redaction may have broken the JSON
        return {}


def start_of(entries: Sequence[Entry]) -> int | None:
    """The first snapshot of a session: the user's files, before any work of an agent."""
    return next((each.event.snapshot for each in entries if isinstance(each.event, SnapshotTaken)), None)


def proposed_in(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The commits that are proposed according to a log: each run may add one to a change."""
    return tuple(each.event.commit for each in entries if isinstance(each.event, ChangeProposed))
