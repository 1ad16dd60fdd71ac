"""Requests of other sites' pages are in the audit, and cannot fill it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hutch.flows.user_accounts import Actor
from hutch.gateway.auth.cross_origin_refusal_audit import (
    MAX_ADDRESSES,
    MAX_ROWS_PER_MINUTE,
    OTHERS,
    RefusalAudit,
)
from hutch.gateway.auth.login_cookie import csrf_token
from hutch.store.audit import AuditEntry
from tests.gateway.api_server import eventually
from tests.gateway.request_filter_server import Answering, answering

pytestmark = pytest.mark.anyio
EVIL = {"Origin": "https://evil.example"}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Answering]:
    async with answering(tmp_path) as made:
        yield made


async def refused(served: Answering) -> list[AuditEntry]:
    """The audit entries, oldest first, once all are written."""
    await served.authenticator.refusals.close()
    found = await served.accounts.audit.list(limit=1000)
    return [entry for entry in reversed(found) if entry.action == "request.refused"]


async def test_a_refused_origin_is_in_the_audit(served: Answering) -> None:
    async with served.client() as http:
        assert (await http.post("/api/v1/open", headers=EVIL)).status_code == 403
        assert (await http.get("/api/v1/open", headers=EVIL)).status_code == 200
    (entry,) = await refused(served)
    assert (entry.ok, entry.object, entry.address) == (False, "/api/v1/open", "127.0.0.1")
    assert entry.detail == "from https://evil.example: This request was sent by a page of another site."


async def test_a_wrong_csrf_token_is_in_the_audit_with_whose_cookie_it_was(served: Answering) -> None:
    user = await served.accounts.ensure_owner("ada")
    browser, secret = await served.accounts.browsers.begin(user.id, began_by="link", address="", agent="")
    cookie = {"Cookie": f"hutch_{served.port}={secret}", "Origin": served.url}
    async with served.client(headers=cookie) as http:
        assert (await http.post("/api/v1/write")).status_code == 403
        right = {"X-CSRF-Token": csrf_token(secret)}
        assert (await http.post("/api/v1/write", headers=right)).status_code == 200
    (entry,) = await refused(served)
    assert (entry.user_id, entry.credential_id) == (user.id, browser.id)
    assert "X-CSRF-Token is missing or wrong" in entry.detail


async def test_a_flood_is_counted_and_not_written(served: Answering) -> None:
    async with served.client() as http:
        for _ in range(MAX_ROWS_PER_MINUTE + 37):
            await http.post("/api/v1/open", headers=EVIL)
    found = await refused(served)
    assert len(found) == MAX_ROWS_PER_MINUTE + 1
    assert (found[-1].detail, found[-1].address) == ("and 37 more", "127.0.0.1")


async def test_after_a_minute_it_begins_anew_and_many_addresses_are_one() -> None:
    written: list[tuple[str, str]] = []

    async def note(actor: Actor, action: str, path: str, why: str) -> None:
        written.append((actor.address, why))

    refusals = RefusalAudit(note, window_s=0.05)
    for minutes in (1, 2):
        for _ in range(MAX_ROWS_PER_MINUTE + 1):
            refusals.add("a", Actor(address="a"), "/", "no")

        async def is_over(minutes: int = minutes) -> bool:
            return sum(why == "and 1 more" for _, why in written) == minutes

        await eventually(is_over)
    assert written == [*[("a", "no")] * MAX_ROWS_PER_MINUTE, ("a", "and 1 more")] * 2
    written.clear()
    refusals = RefusalAudit(note)
    for number in range(MAX_ADDRESSES + 100):
        refusals.add(str(number), Actor(address=str(number)), "/", "no")
    await refusals.close()
    assert [why for address, why in written if address == OTHERS] == [
        *["no"] * MAX_ROWS_PER_MINUTE,
        "and 95 more",
    ]
    assert len(written) == MAX_ADDRESSES + MAX_ROWS_PER_MINUTE + 1
