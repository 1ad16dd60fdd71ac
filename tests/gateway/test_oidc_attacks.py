"""Attacks on the login by a provider that need more than one wrong claim."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from joserfc import jws
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from hutch.domain.errors import Unavailable
from hutch.flows.user_accounts import LOCAL
from hutch.gateway.auth.oidc_provider import Provider
from tests.deadline import DEADLINE_S
from tests.gateway.oidc_provider import CLIENT, IdentityProvider, public
from tests.gateway.test_oidc import Place, a_place, place

__all__ = ["place"]
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("email", ["\u212aim@example.org", "kim@example.org\u200b", "\uff4bim@example.org"])
async def test_an_address_that_only_looks_like_an_expected_one_does_not_get_its_account(
    place: Place, email: str
) -> None:
    """U+212A, the Kelvin sign, has "k" as its lower case: str.lower() makes the two addresses one."""
    kim = await place.served.accounts.add_user("kim@example.org", "owner", LOCAL)
    place.provider.user["email"] = email
    browser = place.browser()
    assert (await place.logs_in(browser)).status_code == 403
    assert (await browser.get("/api/v1/me")).status_code == 401
    place.provider.user["email"] = "Kim@example.org"  # the case of ASCII letters does not matter
    assert (await place.logs_in(browser)).status_code == 303
    assert (await browser.get("/api/v1/me")).json()["user"]["id"] == kim.id


async def test_an_address_and_its_verification_come_from_one_answer(place: Place) -> None:
    """The token says "verified" of an address that it does not name; userinfo names one that is not."""
    place.provider.claims = {"email": None, "email_verified": True}
    place.provider.user["email_verified"] = False
    assert (await place.logs_in()).status_code == 403


@pytest.mark.parametrize("claim", [{"sub": "\ud800"}, {"email": "\ud800@example.org"}, {"exp": 1e999}])
async def test_a_claim_that_cannot_be_stored_is_refused(place: Place, claim: dict[str, Any]) -> None:
    place.provider.claims = claim
    place.provider.sign = lambda provider, claims: jws.serialize_compact(
        {"alg": "RS256", "kid": provider.key.kid}, json.dumps(claims), provider.key
    )
    assert (await place.logs_in()).status_code == 403


async def test_a_token_that_is_not_valid_yet(place: Place) -> None:
    place.provider.claims = {"nbf": int(time.time()) + 3600}
    assert (await place.logs_in()).status_code == 403


# --- a provider that does not behave ---


async def _drip() -> AsyncIterator[bytes]:
    """White space is fine before JSON: a reader that waits for the next byte waits for good."""
    while True:
        yield b" "
        await asyncio.sleep(0.05)


async def test_a_provider_that_drips_does_not_hold_up_logins_for_good(place: Place) -> None:
    place.login.provider.timeout_s = 0.5
    place.provider.keys = lambda provider: StreamingResponse(_drip())
    async with asyncio.timeout(DEADLINE_S):
        answers = await asyncio.gather(*(place.logs_in() for _ in range(3)))
    assert {answer.status_code for answer in answers} == {503}
    place.provider.keys, place.login.provider.timeout_s = None, DEADLINE_S
    assert (await place.logs_in()).status_code == 303


async def test_logins_behind_a_slow_response_time_out_together(place: Place) -> None:
    """Ten at once ask for keys that never come: each gives up in its own time, not in turn."""
    place.login.provider.timeout_s = 2.0
    place.provider.keys = lambda provider: StreamingResponse(_drip())
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*(place.logs_in() for _ in range(10)))
    assert place.provider.calls.count("keys") < 10


async def test_an_answer_that_could_unfold_to_much_more_is_not_unfolded(place: Place) -> None:
    """Right keys, compressed although that was not asked for: 50 KB could be a gigabyte."""

    def packed(provider: IdentityProvider) -> Response:
        body = gzip.compress(json.dumps({"keys": [public(provider.key)]}).encode())
        return Response(body, media_type="application/json", headers={"Content-Encoding": "gzip"})

    place.provider.keys = packed
    answer = await place.logs_in()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


async def test_an_answer_nested_without_end(place: Place) -> None:
    place.provider.keys = lambda provider: Response("[" * 200_000, media_type="application/json")
    answer = await place.logs_in()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


async def test_a_token_nested_without_end(place: Place) -> None:
    place.provider.sign = lambda provider, claims: f"{'W1tb' * 50_000}.W10.W10"
    assert (await place.logs_in()).status_code == 403


@pytest.mark.parametrize(
    "name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"]
)
async def test_a_provider_elsewhere_cannot_point_at_services_of_this_machine(name: str) -> None:
    """Plain HTTP on loopback is for a provider that runs here, not for one that runs elsewhere."""
    result = {name: "http://127.0.0.1:8000/admin"}
    elsewhere, here = (Provider(url, CLIENT, None) for url in ("https://id.example", "http://localhost:1"))
    with pytest.raises(Unavailable, match="not encrypted"):
        elsewhere._endpoint(result, name)
    assert here._endpoint(result, name) == result[name]
    for provider in (elsewhere, here):
        await provider.close()


async def test_a_provider_that_sends_us_on_is_not_followed(tmp_path: Path) -> None:
    """The place it names would get the code, the client's secret and our position in the network."""
    async with a_place(tmp_path) as place:
        place.provider.metadata = {"token_endpoint": f"{place.provider.url}/moved"}
        seen: list[str] = []

        async def moved(request: Request) -> Response:
            seen.append("moved")
            return RedirectResponse(f"{place.served.url}/private", 307)

        async def private(request: Request) -> Response:
            seen.append("private")
            return Response("{}")

        place.provider.more = {"/moved": moved}
        place.served.app.add_route("/private", private, methods=["GET", "POST"])
        assert (await place.logs_in()).status_code == 503
        assert seen == ["moved"]


# --- a browser that somebody else has prepared ---


async def test_one_answer_sent_many_times_at_once_logs_in_once(place: Place) -> None:
    browser = place.browser()
    back = await place.sent_back(browser)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    answers = await asyncio.gather(*(place.browser().get(back, headers={"Cookie": cookie}) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [303] + [403] * 7
    assert place.provider.calls.count("token") == 1


async def test_a_victim_cannot_be_logged_in_as_the_attacker_with_a_planted_cookie(place: Place) -> None:
    """The attacker's cookie beside the victim's own, as a page on another port of the host can set it."""
    attacker, victim = place.browser(), place.browser()
    back = await place.sent_back(attacker)
    (name,) = [name for name in attacker.cookies if name.startswith("hutch-oidc")]
    await place.sent_back(victim)
    both = f"{name}={attacker.cookies[name]}; {name}={victim.cookies[name]}"
    assert (await place.browser().get(back, headers={"Cookie": both})).status_code == 403


async def test_a_planted_session_is_not_the_one_that_is_logged_in(place: Place) -> None:
    """Session fixation: what the browser brought is worth nothing afterwards."""
    attacker, victim = place.browser(), place.browser()
    await place.logs_in(attacker)
    (name,) = [name for name in attacker.cookies if name.startswith("hutch_")]
    planted = attacker.cookies[name]
    place.provider.user = {"sub": "7", "email": "eve@example.org", "email_verified": True}
    victim.cookies.set(name, planted, domain="127.0.0.1", path="/")
    back = await place.sent_back(victim)
    answer = await victim.get(back)
    assert answer.status_code == 303
    fresh = next(
        value.partition("=")[2].partition(";")[0]
        for value in answer.headers.get_list("set-cookie")
        if value.startswith(f"{name}=")
    )
    assert fresh != planted

    async def name_of(secret: str) -> int | str:
        me = await place.browser().get("/api/v1/me", headers={"Cookie": f"{name}={secret}"})
        return me.json()["user"]["name"] if me.status_code == 200 else me.status_code

    assert (await name_of(fresh), await name_of(planted)) == ("eve@example.org", 401)


@pytest.mark.parametrize(
    "next_",
    ["/\t/evil.example", "\t//evil.example", " //evil.example", "///evil.example", "/\n/evil.example"],
)
async def test_a_path_that_a_browser_would_normalise_to_another_host_is_refused(
    place: Place, next_: str
) -> None:
    answer = await place.browser().get("/api/v1/login/oidc", params={"next": next_})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "next_", ["/%5cevil.example", "/%2fevil.example", "/.//evil.example", "/@evil.example"]
)
async def test_a_path_leads_to_a_path_of_this_server(place: Place, next_: str) -> None:
    browser = place.browser()
    answer = await browser.get(await place.sent_back(browser, next_))
    assert answer.headers["location"] == next_
    assert urlsplit(urljoin(place.served.url, answer.headers["location"])).port == place.served.port


async def test_an_answer_to_another_flow_of_the_same_browser_is_refused(place: Place) -> None:
    """A second tab replaces the first flow; the first answer then fits nothing."""
    browser = place.browser()
    first = await place.sent_back(browser)
    second = await place.sent_back(browser)
    assert (await browser.get(first)).status_code == 403
    swapped = parse_qs(urlsplit(first).query)["code"][0]
    state = parse_qs(urlsplit(second).query)["state"][0]
    answer = await browser.get("/api/v1/login/oidc/callback", params={"code": swapped, "state": state})
    assert answer.status_code == 403
