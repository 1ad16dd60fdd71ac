"""The state of the reviews of changes: verdicts, unresolved comments, and whether their runs were undone."""

from collections.abc import Sequence
from dataclasses import field

from hutch.domain.errors import EventsMissing
from hutch.domain.events import RunStarted
from hutch.domain.ids import SessionId
from hutch.domain.proposed_change import Change
from hutch.domain.review import AGENT, Comment, Review, Verdict
from hutch.flows.run_and_log_lookup import read_log
from hutch.sessions.state_before_last_run import effective_entries
from hutch.store.comments_and_reviews import Comments, Reviews
from hutch.store.event_log import SqlLog
from hutch.store.event_log_interface import EventLog
from hutch.store.proposed_changes import Changes
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """The reviews of a change, its unresolved comments, and whether its run was undone."""

    reviews: list[Review] = field(default_factory=list)  # oldest first
    comments: list[Comment] = field(default_factory=list)
    is_undone: bool = False

    @property
    def verdict(self) -> Verdict | None:
        """The strictest of the last verdicts of all reviewers; None without one."""
        verdicts = {each.verdict for each in last_verdicts(self.reviews)}
        return next((each for each in ("changes_requested", "approved") if each in verdicts), None)


async def report(log: SqlLog, changes: Sequence[Change]) -> dict[str, ChangeReport]:
    """The reports of changes, by id."""
    ids = [change.id for change in changes]
    reviews, comments = await Reviews(log).of_changes(ids), await Comments(log).of_changes(ids)
    undone = await _undone(log, changes)
    return {
        id: ChangeReport(
            [each for each in reviews if each.change_id == id],
            [each for each in comments if each.change_id == id],
            id in undone,
        )
        for id in ids
    }


def last_verdicts(reviews: Sequence[Review]) -> list[Review]:
    """The last verdict of each reviewer. A comment of a user decides nothing; one of the agent settles its
    own request."""
    last: dict[str, Review] = {}
    for given in reviews:
        if given.verdict != "commented" or given.author == AGENT:
            last[given.author] = given
    return list(last.values())


async def _undone(log: SqlLog, changes: Sequence[Change]) -> set[str]:
    rewound = await Changes(log).rewound_sessions([change.session_id for change in changes])
    found = set()
    for change in changes:
        if change.session_id in rewound and await is_undone(log, change):
            found.add(change.id)
    return found


async def is_undone(log: EventLog, change: Change) -> bool:
    """True if the run of a change was undone, and not redone."""
    try:
        entries = await read_log(log, SessionId(change.session_id))
    except EventsMissing:  # a damaged log does not say
        return False
    starts = [
        each for each in entries if isinstance(each.event, RunStarted) and each.event.run_id == change.run_id
    ]
    counted = {each.seq for each in effective_entries(entries)}
    return bool(starts) and not any(each.seq in counted for each in starts)
