"""Erases copies of event texts in the other tables.

When a whole log is erased, so is every text of its session. `WORKING_COLUMNS` stay until the session
has ended, because an open session needs them. When only some events are erased, a text is erased if it
contains a text of theirs or is contained in one. The list of tests of each test run is deleted: the log
has its own. All stored responses to idempotent requests are
dropped, because any of them may quote a session. So are the hashes of these requests: they could
confirm a guess of their content.
"""

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select, update

from hutch.domain.ids import SessionId
from hutch.store.idempotency_keys import NOT_STORED
from hutch.store.interview_tables import interviews
from hutch.store.large_payload_files import BlobMissing, Blobs
from hutch.store.schema import (
    answered_requests,
    changes,
    comments,
    deliveries,
    events,
    inputs,
    reviews,
    runs,
    sessions,
)
from hutch.store.test_run_tables import test_runs
from hutch.store.test_runs import delete_tests

ERASED = "(erased)"
MIN_PART_CHARS = 8  # shorter texts are copies only when they are equal
CHOICES = ("type", "outcome", "scope", "kind")  # keys in JSON: their values are chosen by Hutch, not by users
# Keys in JSON whose values programs match on; in `delivery`, those that an open session needs.
PRESERVED_KEYS = {
    "delivery": ("review",),
    "delivered": ("change_id", "url"),
    "body": (),
    "request": ("repository", "url", "by", "author", "mark"),
    "plan": ("id", "language", "levels", "first_level", "hidden_results"),
    "progress": ("candidate", "question", "language", "level", "workspace", "proposal", "offer", "untested"),
}
SESSION_TEXTS = "purpose role company expectations reason"
WORKING_COLUMNS = ("repository", "revision", "persona", "model", "network")  # of a session that is open

IsCopy = Callable[[str], bool]


def erase_copies(connection: Connection, session_id: SessionId, texts: Collection[str] | None) -> None:
    """Erase the copies of these texts in the tables of a session; with None, all its free texts."""
    some = texts is not None
    own = select(changes.c.id).where(changes.c.session_id == session_id)
    places: tuple[tuple[Table, ColumnElement[bool], str, str], ...] = (
        (sessions, sessions.c.id == session_id, SESSION_TEXTS, "delivery" if some else ""),
        (runs, runs.c.session_id == session_id, "prompt reason", "delivered"),
        (inputs, inputs.c.session_id == session_id, "", "body"),
        (changes, changes.c.session_id == session_id, "title body tests", ""),
        (comments, comments.c.change_id.in_(own), "body" if some else "body path", ""),
        (reviews, (reviews.c.session_id == session_id) | reviews.c.change_id.in_(own), "title body", ""),
        (deliveries, deliveries.c.session_id == session_id, "reason", "request"),
        (interviews, interviews.c.id == session_id, "", "plan progress"),
        (test_runs, test_runs.c.session_id == session_id, "command reason", ""),
    )
    delete_tests(connection, session_id, cases_only=True)
    is_copy = _always if texts is None else _copy_of(texts)
    for table, here, plain, in_json in places:
        key = next(iter(table.primary_key.columns))
        for row in connection.execute(select(table).where(here)).mappings().all():
            values = {name: ERASED for name in plain.split() if row[name] and is_copy(row[name])}
            for name in in_json.split():
                if row[name]:
                    kept = () if some and table is not interviews else PRESERVED_KEYS[name]
                    cleaned = _clean_json(row[name], is_copy, kept)
                    values |= {name: cleaned} if cleaned != row[name] else {}
            if values:
                connection.execute(update(table).where(key == row[key.name]).values(values))
    if not some:
        _erase_settings(connection, session_id)
    answered = answered_requests.c.status > NOT_STORED
    nothing = {"status": NOT_STORED, "headers": "{}", "body": b""}
    connection.execute(update(answered_requests).where(answered).values(nothing))
    connection.execute(update(answered_requests).values(request_hash=""))


def _erase_settings(connection: Connection, session_id: SessionId) -> None:
    """Erase the prompt and the options of a session. After its end nothing needs it."""
    row = connection.execute(select(sessions).where(sessions.c.id == session_id)).mappings().one_or_none()
    if row is None:
        return
    delivery = json.loads(row["delivery"]) if row["delivery"] else {}
    values: dict[str, Any] = {
        "delivery": json.dumps(_without_texts(delivery, keep=PRESERVED_KEYS["delivery"]))
    }
    if row["state"] == "ended":
        values = dict.fromkeys(WORKING_COLUMNS, "") | dict.fromkeys(("network", "variables", "secrets"), "[]")
        values["delivery"] = json.dumps(_without_texts(delivery, keep=()))
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(values))


def _without_texts(value: dict[str, Any], keep: Collection[str]) -> dict[str, Any]:
    """The object with empty texts and lists, also in objects inside it, except under the keys in `keep`."""

    def emptied(each: Any) -> Any:
        if isinstance(each, dict):
            return _without_texts(each, keep=())
        return type(each)() if isinstance(each, str | list) else each

    return {name: each if name in keep else emptied(each) for name, each in value.items()}


def collect_texts(connection: Connection, blobs: Blobs, log_id: int, seqs: Collection[int]) -> set[str]:
    """Every text in the payloads of these events, as far as they still exist."""
    here = (events.c.log_id == log_id, events.c.seq.in_(seqs), events.c.salt.is_not(None))
    found: set[str] = set()
    for row in connection.execute(select(events.c.payload_hash, events.c.payload).where(*here)).all():
        try:
            payload = row.payload if row.payload is not None else blobs.get(row.payload_hash)
        except BlobMissing:
            continue  # lost: there is nothing to compare with
        found.update(_leaves(json.loads(payload)))
    return found


def _leaves(value: Any) -> Iterator[str]:
    match value:
        case str():
            if value:
                yield value
        case dict():
            for key, each in value.items():
                if key != "type":
                    yield from _leaves(each)
        case list():
            for each in value:
                yield from _leaves(each)


def _always(_: str) -> bool:
    return True


def _copy_of(texts: Collection[str]) -> IsCopy:
    def is_copy(value: str) -> bool:
        if value in texts:
            return True
        if len(value) < MIN_PART_CHARS:
            return False
        return any(value in text or (len(text) >= MIN_PART_CHARS and text in value) for text in texts)

    return is_copy


def _clean_json(text: str, is_copy: IsCopy, kept: Collection[str]) -> str:
    """JSON with its copies replaced, except under the keys in `kept`; unchanged if it has no copies."""

    def clean(value: Any, key: str) -> Any:
        match value:
            case dict():
                return {name: clean(each, name) for name, each in value.items()}
            case list():
                return [clean(each, key) for each in value]
            case str() if value and key not in CHOICES and key not in kept and is_copy(value):
                return ERASED
        return value

    before = json.loads(text)
    after = clean(before, "")
    return text if after == before else json.dumps(after)
