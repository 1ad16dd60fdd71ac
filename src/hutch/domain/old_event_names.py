"""Names in the events of earlier versions, translated when a log is read.

A log keeps the names of the version that wrote it, and so does a record exported from it: the
hash chain covers them, so a stored event is never rewritten.
"""

from typing import Any

import orjson

RENAMED_TYPES = {
    "approval.asked": "approval.requested",
    "approval.given": "approval.answered",
    "delivery.asked": "delivery.requested",
    "input.taken": "input.processed",
    "jobs.left": "jobs.detached",
    "review.given": "review.submitted",
}
RENAMED_STEPS = {"looking": "inspecting"}
_TRANSLATED_TYPES = {*RENAMED_TYPES, "events.omitted", "step.reached"}


def current_type(type_: str) -> str:
    return RENAMED_TYPES.get(type_, type_)


def current_payload(payload: bytes, type_: str) -> bytes:
    """An event's JSON with the names of this version; the same bytes when it has no old ones."""
    if type_ not in _TRANSLATED_TYPES:
        return payload
    try:
        fields = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return payload
    if not isinstance(fields, dict):
        return payload
    translated = {**fields, **_translated(fields, type_)}
    return payload if translated == fields else orjson.dumps(translated, option=orjson.OPT_SORT_KEYS)


def _translated(fields: dict[str, Any], type_: str) -> dict[str, Any]:
    """The fields of an event that hold names, with the current ones."""
    if type_ in RENAMED_TYPES:
        return {"type": RENAMED_TYPES[type_]}
    step, types = fields.get("step"), fields.get("types")
    if isinstance(step, str):
        return {"step": RENAMED_STEPS.get(step, step)}
    if isinstance(types, dict):
        return {"types": {current_type(name): count for name, count in types.items()}}
    return {}
