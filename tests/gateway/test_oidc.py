"""Login by a provider, against one that speaks the real protocol and lies in one way at a time."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.responses import RedirectResponse, Response

from hutch.domain.errors import BadRequest
from hutch.flows.user_accounts import LOCAL
from hutch.gateway.auth.oidc import OidcLogin
from hutch.gateway.rest import login_and_account, oidc
from hutch.settings.server_sections import Oidc
from tests.gateway.oidc_provider import (
    CLIENT,
    SECRET,
    IdentityProvider,
    by_client_secret,
    by_curve,
    by_embedded,
    by_public_key,
    by_stranger,
    changed_after,
    identity_provider,
    public,
    unsigned,
)
from tests.gateway.request_filter_server import Answering, answering

pytestmark = pytest.mark.anyio


@dataclass
class Clock:
    """A clock that a test can move on."""

    passed_s: float = 0.0

    def now_s(self) -> float:
        return time.monotonic() + self.passed_s


@dataclass
class Place:
    served: Answering
    provider: IdentityProvider
    login: OidcLogin
    clock: Clock = field(default_factory=Clock)

    def browser(self) -> httpx.AsyncClient:
        client = self.served.client(follow_redirects=False)
        self.served.clients.append(client)
        return client

    async def sent_back(self, browser: httpx.AsyncClient, next_: str = "/sessions") -> str:
        """Go to the provider; where it sends the browser back to."""
        off = await browser.get("/api/v1/login/oidc", params={"next": next_})
        assert off.status_code == 303, off.text
        back = await browser.get(off.headers["location"])
        assert back.status_code == 302, back.text
        return back.headers["location"]

    async def logs_in(self, browser: httpx.AsyncClient | None = None) -> httpx.Response:
        browser = browser or self.browser()
        return await browser.get(await self.sent_back(browser))


@asynccontextmanager
async def a_place(tmp_path: Path, **settings: Any) -> AsyncIterator[Place]:
    async with identity_provider() as provider:
        given = {"allowed_domains": ("example.org",), **settings}
        clock = Clock()
        by_oidc = OidcLogin(Oidc(issuer=provider.url, client_id=CLIENT, **given), SECRET, clock.now_s)
        async with answering(
            tmp_path, login_and_account.routes, oidc.routes, state={"oidc": by_oidc}
        ) as served:
            await served.accounts.ensure_owner("owner")
            yield Place(served, provider, by_oidc, clock)
        await by_oidc.close()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with a_place(tmp_path) as made:
        yield made


async def test_a_new_user_is_logged_in_and_known_the_next_time(place: Place) -> None:
    browser = place.browser()
    answer = await place.logs_in(browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sessions")
    me = (await browser.get("/api/v1/me")).json()
    assert (me["user"]["name"], me["user"]["role"], me["by"]) == ("ada@example.org", "member", "cookie")
    place.provider.user["email"] = "ada.lovelace@example.org"  # she is who she is, whatever she is called
    other = place.browser()
    await place.logs_in(other)
    assert (await other.get("/api/v1/me")).json()["user"]["id"] == me["user"]["id"]
    assert place.provider.calls.count("discover") == place.provider.calls.count("keys") == 1
    actions = [entry.action for entry in await place.served.accounts.audit.list()]
    assert actions[:3] == ["login", "login", "user.identified"]
    assert (await browser.get("/api/v1/login")).json()["methods"] == ["password", "oidc"]


async def test_the_provider_gets_only_the_required_parameters(place: Place) -> None:
    browser = place.browser()
    off = await browser.get("/api/v1/login/oidc")
    asked = parse_qs(urlsplit(off.headers["location"]).query)
    again = parse_qs(urlsplit((await browser.get("/api/v1/login/oidc")).headers["location"]).query)
    assert asked["redirect_uri"] == [f"{place.served.url}/api/v1/login/oidc/callback"]
    assert asked["code_challenge_method"] == ["S256"]
    assert all(asked[name] != again[name] for name in ("state", "nonce", "code_challenge"))
    cookie = off.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Max-Age=600" in cookie
    assert asked["nonce"][0] not in cookie  # sealed


NOW = int(time.time())
LIES: dict[str, dict[str, Any]] = {
    "another nonce": {"claims": {"nonce": "another"}},
    "no nonce": {"claims": {"nonce": None}},
    "another issuer": {"claims": {"iss": "https://evil.example"}},
    "an issuer nearly the same": {"claims": {"iss": "http://127.0.0.1/"}},
    "another audience": {"claims": {"aud": "another-client"}},
    "no audience": {"claims": {"aud": None}},
    "for several, not saying whom": {"claims": {"aud": [CLIENT, "another-client"]}},
    "for another party": {"claims": {"aud": [CLIENT, "another"], "azp": "another"}},
    "expired": {"claims": {"exp": NOW - 3600}},
    "without an end": {"claims": {"exp": None}},
    "of the future": {"claims": {"iat": NOW + 36_000, "exp": NOW + 72_000}},
    "of nobody": {"claims": {"sub": None}},
    "of an empty name": {"claims": {"sub": ""}},
    "of a number": {"claims": {"sub": 7}},
    "unsigned": {"sign": unsigned},
    "signed by a stranger": {"sign": by_stranger},
    "signed by a key it brings along": {"sign": by_embedded},
    "signed with the public key as secret": {"sign": by_public_key},
    "signed with the client's secret": {"sign": by_client_secret},
    "signed by another algorithm": {"sign": by_curve},
    "changed after it was signed": {"sign": changed_after},
    "no token": {"sign": lambda provider, claims: "a.b.c"},
    "an empty token": {"sign": lambda provider, claims: ""},
    "a list": {"sign": lambda provider, claims: "W10.W10.W10"},
    "an address that was not verified": {"claims": {"email_verified": False}},
    "an address said to be verified in words": {"claims": {"email_verified": "true"}},
    "an address of another domain": {"claims": {"email": "ada@evil.example"}},
    "an address with the domain in it": {"claims": {"email": "ada@example.org@evil.example"}},
    "an address of a domain that ends so": {"claims": {"email": "ada@evilexample.org"}},
    "an address below the domain": {"claims": {"email": "ada@sub.example.org"}},
    "what is no address": {"claims": {"email": ["ada@example.org"]}},
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_is_not_believed(place: Place, lie: str) -> None:
    for name, value in LIES[lie].items():
        setattr(place.provider, name, value)
    browser = place.browser()
    answer = await place.logs_in(browser)
    assert (answer.status_code, answer.json()["code"]) == (403, "denied")
    assert (await browser.get("/api/v1/me")).status_code == 401
    assert [user.name for user in await place.served.accounts.users.list()] == ["owner"]
    (refused,) = [entry for entry in await place.served.accounts.audit.list() if not entry.ok]
    assert refused.action == "login.refused"
    place.provider.claims, place.provider.sign = {}, None  # and without the lie it works
    assert (await place.logs_in(browser)).status_code == 303


def _as_secret(provider: IdentityProvider) -> Any:
    """Keys among which the public one is also a shared secret."""
    return {"keys": [{"kty": "oct", "kid": provider.key.kid, "k": "c2VjcmV0" * 8}]}


def _elsewhere_first(provider: IdentityProvider) -> Any:
    """Right keys, for who follows to where they are said to be."""
    if provider.calls.count("keys") == 1:
        return RedirectResponse(f"{provider.url}/keys")
    return {"keys": [public(provider.key)]}


@pytest.mark.parametrize(
    "keys",
    [
        _as_secret,
        lambda provider: {"keys": []},
        lambda provider: {"keys": "none"},
        lambda provider: {},
        lambda provider: [],
        lambda provider: {"keys": [{"kty": "RSA"}, 7, None]},
        lambda provider: {"keys": [{**public(provider.key), "use": "enc"}]},
        lambda provider: Response("x" * 1_000_000, media_type="application/json"),
        _elsewhere_first,
        lambda provider: Response("no", 500),
    ],
)
async def test_keys_that_cannot_be_used(place: Place, keys: Any) -> None:
    place.provider.keys = keys
    answer = await place.logs_in()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


async def test_new_keys_are_fetched_when_they_are_needed(place: Place) -> None:
    assert (await place.logs_in()).status_code == 303
    place.login.provider.new_keys_interval_s = 0
    place.provider.rotate()
    assert (await place.logs_in()).status_code == 303
    assert place.provider.calls.count("keys") == 2


async def test_unauthenticated_callers_cannot_force_repeated_key_requests(place: Place) -> None:
    assert (await place.logs_in()).status_code == 303
    place.provider.sign = by_embedded  # names a key that is not there
    for _ in range(5):
        assert (await place.logs_in()).status_code == 403
    assert place.provider.calls.count("keys") == 1


async def test_a_login_that_was_begun_in_another_browser(place: Place) -> None:
    mine, victims = place.browser(), place.browser()
    back = await place.sent_back(mine)
    assert (await victims.get(back)).status_code == 403  # who has begun nothing
    await place.sent_back(victims)
    assert (await victims.get(back)).status_code == 403  # who has begun another
    assert (await victims.get("/api/v1/me")).status_code == 401
    assert (await mine.get(back)).status_code == 303


async def test_a_code_of_another_login_put_into_ones_own(place: Place) -> None:
    mine, victims = place.browser(), place.browser()
    stolen = parse_qs(urlsplit(await place.sent_back(victims)).query)["code"][0]
    back = urlsplit(await place.sent_back(mine))
    state = parse_qs(back.query)["state"][0]
    answer = await mine.get(back.path, params={"code": stolen, "state": state})
    assert answer.status_code == 403  # the provider knows which verifier belongs to it


async def test_a_login_is_finished_once(place: Place) -> None:
    browser = place.browser()
    back = await place.sent_back(browser)
    cookies = dict(browser.cookies)
    assert (await browser.get(back)).status_code == 303
    assert not any(name.startswith("hutch-oidc") for name in browser.cookies)
    thief = place.browser()
    thief.cookies.update(cookies)  # all that the browser had
    assert (await thief.get(back)).status_code == 403
    assert place.provider.calls.count("token") == 1


async def test_a_login_takes_ten_minutes_at_most_whatever_the_wall_clock_says(place: Place) -> None:
    browser = place.browser()
    back = await place.sent_back(browser)
    place.clock.passed_s += 599
    assert (await browser.get(back)).status_code == 303
    back = await place.sent_back(browser)
    place.clock.passed_s += 601
    answer = await browser.get(back)
    assert (answer.status_code, answer.json()["code"]) == (403, "denied")
    assert "too long ago" in answer.text


async def test_a_code_is_spent_once_even_when_the_server_has_forgotten(place: Place) -> None:
    browser = place.browser()
    back = await place.sent_back(browser)
    cookies = dict(browser.cookies)
    assert (await browser.get(back)).status_code == 303
    place.login._spent.clear()
    thief = place.browser()
    thief.cookies.update(cookies)
    assert (await thief.get(back)).status_code == 403


@pytest.mark.parametrize("state", [None, "", "wrong", "ü"])
async def test_another_state(place: Place, state: str | None) -> None:
    browser = place.browser()
    back = urlsplit(await place.sent_back(browser))
    code = parse_qs(back.query)["code"][0]
    params = {"code": code} if state is None else {"code": code, "state": state}
    assert (await browser.get(back.path, params=params)).status_code == 403
    assert "token" not in place.provider.calls


async def test_a_forged_cookie(place: Place) -> None:
    browser = place.browser()
    back = await place.sent_back(browser)
    for forged in ("", "x", "gAAAAA" + "A" * 200, "é"):
        answer = await place.browser().get(
            back, headers={"Cookie": f"hutch-oidc_{place.served.port}={forged}".encode()}
        )
        assert answer.status_code == 403


async def test_an_answer_of_another_provider(place: Place) -> None:
    browser = place.browser()
    back = await place.sent_back(browser)
    assert (await browser.get(f"{back}&iss=https://evil.example")).status_code == 403
    browser = place.browser()
    back = await place.sent_back(browser)
    assert (await browser.get(f"{back}&iss={place.provider.url}")).status_code == 303


async def test_a_provider_that_names_its_issuer_must_always_do_so(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        place.provider.metadata = {"authorization_response_iss_parameter_supported": True}
        assert (await place.logs_in()).status_code == 403


async def test_a_refusal_is_reported(place: Place) -> None:
    browser = place.browser()
    state = parse_qs(urlsplit(await place.sent_back(browser)).query)["state"][0]
    answer = await browser.get(
        "/api/v1/login/oidc/callback", params={"state": state, "error": "access_denied"}
    )
    assert answer.status_code == 401
    assert "access_denied" in answer.json()["detail"]


@pytest.mark.parametrize(
    "next_",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "",
        "javascript:alert(1)",
        "/a\r\nX: y",
        "/ü",
        "x",
    ],
)
async def test_a_login_does_not_redirect_to_other_sites(place: Place, next_: str) -> None:
    answer = await place.browser().get("/api/v1/login/oidc", params={"next": next_})
    assert answer.status_code == 400


async def test_an_account_with_a_password_is_not_taken_over(place: Place) -> None:
    accounts = place.served.accounts
    ada = await accounts.add_user("ada@example.org", "member", LOCAL)
    await accounts.set_password(ada.id, "correct horse battery", LOCAL)
    assert (await place.logs_in()).status_code == 409


async def test_an_expected_user_logs_in_with_the_assigned_role(place: Place) -> None:
    await place.served.accounts.add_user("ada@example.org", "assessor", LOCAL)
    browser = place.browser()
    await place.logs_in(browser)
    assert (await browser.get("/api/v1/me")).json()["user"]["role"] == "assessor"


async def test_a_disabled_user_stays_out(place: Place) -> None:
    await place.logs_in()
    ada = await place.served.accounts.users.find("ada@example.org")
    await place.served.accounts.set_disabled(ada.id, True, LOCAL)
    assert (await place.logs_in()).status_code == 403


@pytest.mark.parametrize(
    ("settings", "email", "expected"),
    [
        ({"allowed_domains": ()}, "ada@example.org", 403),  # an empty list has nobody on it
        ({"allowed_domains": (), "allowed_emails": ("Ada@Example.org",)}, "ada@example.ORG", 303),
        ({"allowed_domains": ("*.example.org",)}, "ada@sub.example.org", 303),
        ({"allowed_domains": ("*.example.org",)}, "ada@example.org", 403),
        ({"allowed_domains": ("example.org",)}, "\uff41da@example.org", 403),  # users are found by NFKC
        ({"allowed_emails": ("stra\xdfe@example.org",)}, "stra\xdfe@example.org", 403),  # and by casefold
        ({"allowed_emails": ("eve@elsewhere.example",), "role": "observer"}, "eve@elsewhere.example", 303),
    ],
)
async def test_allowed_addresses(tmp_path: Path, settings: dict[str, Any], email: str, expected: int) -> None:
    async with a_place(tmp_path, **settings) as place:
        place.provider.user["email"] = email
        assert (await place.logs_in()).status_code == expected


async def test_a_refused_user_reads_that_an_operator_can_help(tmp_path: Path) -> None:
    async with a_place(tmp_path, allowed_domains=()) as place:
        refused = await place.logs_in()
        assert "An operator of this server can add it to oidc.allowed_emails." in refused.text


async def test_an_address_from_the_user_info_endpoint(place: Place) -> None:
    place.provider.claims = {"email": None, "email_verified": None}
    assert (await place.logs_in()).status_code == 303
    assert "userinfo" in place.provider.calls
    place.provider.claims |= {"sub": "somebody else"}
    assert (await place.logs_in()).status_code == 403  # two users at once


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"authorization_endpoint": None},
        {"jwks_uri": 7},
    ],
)
async def test_an_invalid_provider(tmp_path: Path, metadata: dict[str, Any]) -> None:
    async with a_place(tmp_path) as place:
        place.provider.metadata = metadata
        answer = await place.browser().get("/api/v1/login/oidc")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


async def test_a_secret_can_go_into_the_form(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        place.provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
        assert (await place.logs_in()).status_code == 303


async def test_a_wrong_secret_and_a_provider_that_is_gone(tmp_path: Path) -> None:
    async with identity_provider() as provider:
        settings = Oidc(issuer=provider.url, client_id=CLIENT, allowed_domains=("example.org",))
        wrong = OidcLogin(settings, "wrong")
        async with answering(
            tmp_path, login_and_account.routes, oidc.routes, state={"oidc": wrong}
        ) as served:
            place = Place(served, provider, wrong)
            assert (await place.logs_in()).status_code == 403
        await wrong.close()
    gone = OidcLogin(settings, SECRET)
    async with answering(tmp_path, oidc.routes, state={"oidc": gone}) as served, served.client() as http:
        assert (await http.get("/api/v1/login/oidc")).status_code == 503
    await gone.close()


async def test_without_a_provider_there_is_nothing(tmp_path: Path) -> None:
    async with answering(tmp_path, login_and_account.routes, oidc.routes) as served, served.client() as http:
        for path in ("/api/v1/login/oidc", "/api/v1/login/oidc/callback?state=x&code=y"):
            assert (await http.get(path)).status_code == 404
    with pytest.raises(BadRequest):
        OidcLogin(Oidc(issuer="https://id.example"))


async def test_guessing_at_the_callback_makes_the_guesser_wait(place: Place) -> None:
    async with place.served.client() as http:
        said = [
            (await http.get("/api/v1/login/oidc/callback", params={"state": "x", "code": "y"})).status_code
            for _ in range(25)
        ]
    assert said[:21] == [403] * 21
    assert 429 in said
