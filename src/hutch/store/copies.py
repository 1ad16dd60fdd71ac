"""Copies of what events say, in the other tables: an erasure has to reach these too.

When a whole log is erased, so is every free text of its session. When only some events are, a text
is erased that holds a text of theirs, or is a part of one. Answers that are kept for repeated
requests are dropped altogether: any of them may quote a session.
"""

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select, update

from hutch.domain.ids import SessionId
from hutch.store.blobs import BlobMissing, Blobs
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

ERASED = "(erased)"
NOT_KEPT = 1  # instead of a status: it was answered, and the answer is not here
MIN_PART_CHARS = 8  # shorter texts are copies only when they are equal
FREE_TEXT = ("text", "title", "body", "reason", "hunk", "prompt", "note", "answer")  # keys in JSON

IsCopy = Callable[[str], bool]


def erase_copies(connection: Connection, session_id: SessionId, texts: Collection[str] | None) -> None:
    """Erase the copies of these texts in the tables of a session; with None, all its free texts."""
    own = select(changes.c.id).where(changes.c.session_id == session_id)
    places: tuple[tuple[Table, ColumnElement[bool], str, str], ...] = (
        (sessions, sessions.c.id == session_id, "purpose role expectations reason", "delivery"),
        (runs, runs.c.session_id == session_id, "prompt reason", "delivered"),
        (inputs, inputs.c.session_id == session_id, "", "body"),
        (changes, changes.c.session_id == session_id, "title body tests", ""),
        (comments, comments.c.change_id.in_(own), "body", ""),
        (reviews, (reviews.c.session_id == session_id) | reviews.c.change_id.in_(own), "title body", ""),
        (deliveries, deliveries.c.session_id == session_id, "reason", "wish"),
    )
    is_copy = _always if texts is None else _copy_of(texts)
    for table, here, plain, in_json in places:
        key = next(iter(table.primary_key.columns))
        for row in connection.execute(select(table).where(here)).mappings().all():
            values = {name: ERASED for name in plain.split() if row[name] and is_copy(row[name])}
            for name in in_json.split():
                if row[name]:
                    cleaned = _clean_json(row[name], is_copy, everything=texts is None)
                    values |= {name: cleaned} if cleaned != row[name] else {}
            if values:
                connection.execute(update(table).where(key == row[key.name]).values(values))
    answered = answered_requests.c.status > NOT_KEPT
    connection.execute(
        update(answered_requests).where(answered).values(status=NOT_KEPT, headers="{}", body=b"")
    )


def texts_of(connection: Connection, blobs: Blobs, log_id: int, seqs: Collection[int]) -> set[str]:
    """Every text in the payloads of these events, as far as they are there."""
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


def _clean_json(text: str, is_copy: IsCopy, *, everything: bool) -> str:
    """JSON with its copies replaced; the same text when there are none."""

    def clean(value: Any, key: str) -> Any:
        match value:
            case dict():
                return {name: clean(each, name) for name, each in value.items()}
            case list():
                return [clean(each, key) for each in value]
            case str() if value and key != "type" and (key in FREE_TEXT or not everything) and is_copy(value):
                return ERASED
        return value

    before = json.loads(text)
    after = clean(before, "")
    return text if after == before else json.dumps(after)
