"""The result of a delivery as text, the same for every command."""

import shlex
from collections.abc import Mapping
from typing import Any

from hutch.domain.run_events import SUSPECTED_SECRET

DETACHED = "HEAD"  # the base of a change to a repository without a checked-out branch
NOTHING = "Nothing was changed, so there is nothing to deliver."


def delivery_lines(run_id: str, delivery: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Labelled lines: the result and, after a failure, the command that delivers again."""
    if delivery.get("outcome") == "proposed":
        note = [("note", str(delivery["reason"]))] if delivery.get("reason") else []
        return [("delivered", f"{delivery.get('change_id')} {delivery.get('url') or ''}".strip()), *note]
    if delivery.get("outcome") != "failed":
        return [("delivered", NOTHING)]
    if delivery.get("failing") or delivery.get("code") == SUSPECTED_SECRET:
        again = ("deliver anyway", f"hutch changes propose {run_id}")
    else:
        again = ("try again", f"hutch changes deliver {run_id}")
    return [("not delivered", str(delivery.get("reason") or "")), again]


def page_of(change: Mapping[str, Any]) -> str:
    """The web page of a pull request; empty when there is none. A branch without one has `ADDRESS#BRANCH`."""
    url = str(change.get("url") or "")
    return url if url.startswith("http") and "#" not in url else ""


def next_steps(change: Mapping[str, Any], *, force: bool = False) -> list[tuple[str, str]]:
    """Labelled commands that review and merge a change, as far as its repository allows them.

    Hutch merges on this machine and on a forge that it knows. At a plain git address there is only a
    branch, for git. A change to a detached HEAD has no branch to be merged into.
    """
    id_, branch = str(change.get("change_id") or change.get("id")), str(change.get("branch") or "")
    url, review = str(change.get("url") or ""), ("review it", f"hutch changes diff {id_}")
    if not page_of(change) and not url.startswith("/"):
        address = shlex.quote(url.removesuffix(f"#{branch}"))
        return [
            ("review it", f"git fetch {address} {shlex.quote(branch)} && git diff HEAD...FETCH_HEAD"),
            ("merge it", "git merge FETCH_HEAD"),
        ]
    if change.get("base") == DETACHED:
        return [review]
    return [review, ("merge it", f"hutch changes merge {id_}{' --force' if force else ''}")]


def delivery_rows(session: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows about the last delivery; a review session has nothing to redeliver."""
    delivered = session.get("delivered")
    lines = delivery_lines(delivered["run_id"], delivered) if delivered else []
    return lines if session["deliver"] else lines[:1]
