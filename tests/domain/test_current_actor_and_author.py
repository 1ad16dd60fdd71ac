"""Every event has one author: a user, the agent, Hutch itself, or an unknown one."""

import pytest

from hutch.domain import events
from hutch.domain.current_actor_and_author import AGENT, HUTCH, author_of
from hutch.domain.events import ErasedEvent, Event

AUTHORS: list[tuple[Event, str]] = [
    (events.CommandStarted(shell="main", command="ls", cwd="/", by="usr_1"), "usr_1"),
    (events.CommandStarted(shell="agent", command="ls", cwd="/", by=AGENT, call_id="c1"), AGENT),
    (events.CommandStarted(shell="main", command="ls", cwd="/"), HUTCH),
    (events.SessionOpened(owner="usr_1"), "usr_1"),
    (events.RunQueued(run_id="run_1", prompt="fix it", by="usr_1"), "usr_1"),
    (events.ToolCalled(run_id="run_1", call_id="c1", tool="bash", arguments="{}"), AGENT),
    (events.ToolCalled(run_id="", call_id="c1", tool="bash", arguments="{}", by="usr_1"), "usr_1"),
    (events.MessageSent(author="hutch", text="hello"), HUTCH),
    (events.MessageSent(author="agent", text="hello"), AGENT),
    (events.MessageSent(author="user", text="hello", by="usr_1"), "usr_1"),
    (events.FileChanged(path="a", kind="created", by=AGENT), AGENT),
    (events.FileChanged(path="a", kind="created", call_id="c1"), AGENT),  # of an earlier version
    (events.FileChanged(path="a", kind="created", possible_authors=("usr_1", AGENT)), ""),
    (events.FilesChanged(created=2), ""),
    (events.SessionWoken(), HUTCH),
]


@pytest.mark.parametrize(("event", "author"), AUTHORS)
def test_an_event_has_one_author(event: Event, author: str) -> None:
    assert author_of(event) == author


def test_the_author_of_an_erased_event_is_unknown() -> None:
    assert author_of(ErasedEvent("file.changed", 0, "")) == ""
