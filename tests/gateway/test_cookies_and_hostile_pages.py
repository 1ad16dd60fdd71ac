"""A real browser: its cookies, attacking pages, and login by a provider."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext

from hutch.flows.user_accounts import LOCAL
from hutch.gateway.auth import one_time_link_page
from hutch.gateway.auth.oidc import OidcLogin
from hutch.gateway.rest import login_and_account, oidc, users_invites_and_audit
from hutch.settings.server_sections import Oidc, Server
from tests.deadline import DEADLINE_S
from tests.gateway.headless_browser import certificate, chromium, page_of_another
from tests.gateway.oidc_provider import CLIENT, SECRET, identity_provider
from tests.gateway.request_filter_server import Answering, answering

pytestmark = pytest.mark.anyio
PASSWORD = "correct horse battery"
ROUTES = (login_and_account.routes, users_invites_and_audit.routes, one_time_link_page.routes, oidc.routes)
# Left open, the attack works, which says something about the attack: `make soak` tries that.
UNGUARDED = pytest.mark.parametrize(
    "guarded", [pytest.param(False, marks=pytest.mark.soak, id="open"), pytest.param(True, id="guarded")]
)


@pytest.fixture(scope="module")
async def started() -> AsyncIterator[Browser]:
    async with chromium("evil.example") as browser:
        yield browser


@pytest.fixture
async def browser(started: Browser) -> AsyncIterator[Browser]:
    """One for all, in which nothing is left of who was there before."""
    assert started.contexts == []
    yield started
    for context in started.contexts:
        await context.close()


def left_open(guarded: bool) -> dict[str, Any]:
    """Options of a server without the protections, unless `guarded`."""
    return {} if guarded else {"checks": (), "check_csrf": False}


async def logged_in(context: BrowserContext, served: Answering) -> None:
    """By a one-time link, as its page uses it: the cookie is one that the browser was given."""
    owner = await served.accounts.ensure_owner("ada")
    made = await served.accounts.new_link(owner)
    answered = await context.request.post(f"{served.url}/api/v1/login/link", data={"link": made.secret})
    assert answered.status == 200, await answered.text()


async def test_the_first_link_and_a_password(tmp_path: Path, browser: Browser) -> None:
    async with answering(tmp_path, *ROUTES) as served:
        owner = await served.accounts.ensure_owner("ada")
        made = await served.accounts.new_link(owner)
        context = await browser.new_context()
        page = await context.new_page()
        requests: list[str] = []
        problems: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda said: problems.append(said.text))
        await page.goto(made.url(served.url))
        await page.wait_for_selector("#login:not([hidden])")
        assert page.url == f"{served.url}/link"  # the secret is gone from the address
        assert not any(made.secret in url for url in requests)
        assert await context.cookies() == []  # looking at it has spent nothing
        await page.click("#login button")
        await page.fill("#new", "short")
        await page.click("#password button:has-text('Set it')")
        assert "/link" in page.url  # the browser itself does not take it
        await page.fill("#new", PASSWORD)
        async with page.expect_navigation():
            await page.click("#password button:has-text('Set it')")
        (cookie,) = await context.cookies()
        assert {name: cookie[name] for name in ("name", "path", "httpOnly", "secure", "sameSite")} == {
            "name": f"hutch_{served.port}",
            "path": "/",
            "httpOnly": True,
            "secure": False,
            "sameSite": "Lax",
        }
        assert await page.evaluate("document.cookie") == ""
        await page.goto(f"{served.url}/api/v1/me")
        assert '"ada"' in await page.content()
        assert [problem for problem in problems if "Content Security" in problem] == []
        assert (await served.accounts.login("ada", PASSWORD, LOCAL)).name == "ada"


async def test_an_invite_creates_a_user(tmp_path: Path, browser: Browser) -> None:
    async with answering(tmp_path, *ROUTES) as served:
        await served.accounts.ensure_owner("ada")
        made = await served.accounts.invite(
            role="member", session_id=None, share_role=None, life_s=3600, actor=LOCAL
        )
        page = await (await browser.new_context()).new_page()
        await page.goto(made.url(served.url))
        await page.fill("#name", "ada")
        await page.fill("#chosen", PASSWORD)
        await page.click("#accept button")
        await page.locator("#said", has_text="already").wait_for()
        await page.fill("#name", "Grace Hopper")
        async with page.expect_navigation():
            await page.click("#accept button")
        assert (await served.accounts.users.find("grace hopper")).role == "member"


async def test_under_tls_the_cookie_is_bound_to_this_host(tmp_path: Path, browser: Browser) -> None:
    cert, key = certificate(tmp_path / "tls")
    server = Server(tls_cert=str(cert), tls_key=str(key))
    async with answering(tmp_path, *ROUTES, server=server) as served:
        context = await browser.new_context(ignore_https_errors=True)
        await logged_in(context, served)
        (cookie,) = await context.cookies()
        assert (cookie["name"], cookie["secure"], cookie["httpOnly"]) == ("__Host-hutch", True, True)
        page = await context.new_page()
        answer = await page.goto(f"{served.url}/api/v1/me")
        assert answer is not None
        assert answer.status == 200


ATTACKS = {
    "a form": "<form id=f method=post action='{url}/api/v1/write'></form><script>f.submit()</script>",
    "a form of text": (
        "<form id=f method=post enctype='text/plain' action='{url}/api/v1/write'>"
        "<input name='{{\"a\":\"' value='\"}}'></form><script>f.submit()</script>"
    ),
    "a request": (
        "<script>fetch('{url}/api/v1/write',"
        " {{method:'POST', mode:'no-cors', credentials:'include'}})</script>"
    ),
    "a beacon": "<script>navigator.sendBeacon('{url}/api/v1/write', 'x')</script>",
}


@UNGUARDED
@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_page_on_another_port_acts_for_the_logged_in_user(
    tmp_path: Path, browser: Browser, attack: str, guarded: bool
) -> None:
    """To a browser, another port of one machine is the same site: SameSite does not help."""
    async with answering(tmp_path, *ROUTES, **left_open(guarded)) as served:
        context = await browser.new_context()
        await logged_in(context, served)
        async with page_of_another(ATTACKS[attack].format(url=served.url)) as port:
            page = await context.new_page()
            await page.goto(f"http://127.0.0.1:{port}/")
            async with asyncio.timeout(DEADLINE_S):
                while not any(path == "/api/v1/write" for _, path, _ in served.answered):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            assert ("POST", "/api/v1/write", 403 if guarded else 200) in served.answered
    assert served.seen == ([] if guarded else [("write", "ada")])


async def test_a_page_of_another_site_gets_no_cookie_and_no_answer(tmp_path: Path, browser: Browser) -> None:
    reading = """<script>
      const said = [];
      async function tries(name, does) {{
        try {{ said.push([name, await does()]); }} catch (e) {{ said.push([name, "refused"]); }}
      }}
      const ours = "{url}/api/v1/me";
      (async () => {{
        await tries("read", async () => (await fetch(ours, {{credentials: "include"}})).status);
        await tries("header", async () => (await fetch(ours, {{headers: {{"X-CSRF-Token": "x"}}}})).status);
        await tries("post", async () => (await fetch("{url}/api/v1/write",
          {{method: "POST", credentials: "include", headers: {{"X-CSRF-Token": "x"}}}})).status);
        await tries("socket", () => new Promise((yes, no) => {{
          const socket = new WebSocket("{url}/api/v1/socket".replace("http", "ws"));
          socket.onopen = () => yes("opened"); socket.onerror = no; }}));
        document.title = JSON.stringify(said);
      }})();
    </script>"""
    async with answering(tmp_path, *ROUTES) as served:
        context = await browser.new_context()
        await logged_in(context, served)
        async with page_of_another(reading.format(url=served.url)) as port:
            page = await context.new_page()
            await page.goto(f"http://evil.example:{port}/")
            await page.wait_for_function("document.title.length > 0")
            names = ("read", "header", "post", "socket")
            assert await page.evaluate("JSON.parse(document.title)") == [[name, "refused"] for name in names]
    assert served.seen == []


@UNGUARDED
async def test_a_websocket_from_another_port(tmp_path: Path, browser: Browser, guarded: bool) -> None:
    attack = """<script>
      const socket = new WebSocket("{url}/api/v1/socket".replace("http", "ws"));
      socket.onmessage = (message) => {{ document.title = message.data; }};
      socket.onerror = () => {{ document.title = "refused"; }};
    </script>"""
    async with answering(tmp_path, *ROUTES, **left_open(guarded)) as served:
        context = await browser.new_context()
        await logged_in(context, served)
        async with page_of_another(attack.format(url=served.url)) as port:
            page = await context.new_page()
            await page.goto(f"http://127.0.0.1:{port}/")
            await page.wait_for_function("document.title.length > 0")
            assert await page.title() == ("refused" if guarded else "ada")


async def test_a_page_of_ours_opens_a_websocket_and_acts(tmp_path: Path, browser: Browser) -> None:
    async with answering(tmp_path, *ROUTES) as served:
        context = await browser.new_context()
        await logged_in(context, served)
        page = await context.new_page()
        await page.goto(f"{served.url}/api/v1/me")
        said = await page.evaluate(
            """() => new Promise((yes, no) => {
              const socket = new WebSocket(location.origin.replace("http", "ws") + "/api/v1/socket");
              socket.onmessage = (message) => yes(message.data); socket.onerror = () => no("refused"); })"""
        )
        assert said == "ada"
        acts = """async (csrf) => {
          const login = await (await fetch("/api/v1/login")).json();
          const headers = csrf ? {"X-CSRF-Token": login.csrf} : {};
          return (await fetch("/api/v1/write", {method: "POST", headers})).status; }"""
        assert [await page.evaluate(acts, word) for word in (False, True)] == [403, 200]


@UNGUARDED
async def test_a_name_that_is_turned_to_this_machine(tmp_path: Path, browser: Browser, guarded: bool) -> None:
    """DNS rebinding: the page's own name leads to our port, so that to the browser it is our page."""
    async with answering(tmp_path, *ROUTES, **left_open(guarded)) as served:
        page = await (await browser.new_context()).new_page()
        answer = await page.goto(f"http://evil.example:{served.port}/api/v1/open")
        assert answer is not None
        assert answer.status == (421 if guarded else 200)


async def test_to_a_provider_and_back(tmp_path: Path, browser: Browser) -> None:
    async with identity_provider() as provider:
        provider.asks = True
        settings = Oidc(issuer=provider.url, client_id=CLIENT, allowed_domains=("example.org",))
        by_oidc = OidcLogin(settings, SECRET)
        async with answering(tmp_path, *ROUTES, state={"oidc": by_oidc}) as served:
            await served.accounts.ensure_owner("owner")
            context = await browser.new_context()
            page = await context.new_page()
            await page.goto(f"{served.url}/api/v1/login/oidc?next=/api/v1/me")
            assert page.url.startswith(provider.url)
            async with page.expect_navigation(url=f"{served.url}/api/v1/me"):
                await page.click("#go")
            assert "ada@example.org" in await page.content()
            assert [cookie["name"] for cookie in await context.cookies(served.url)] == [
                f"hutch_{served.port}"
            ]
            stranger = await (await browser.new_context()).new_page()
            code = next(iter(provider.codes))
            answer = await stranger.goto(
                f"{served.url}/api/v1/login/oidc/callback?code={code}&state={provider.codes[code]['state']}"
            )
            assert answer is not None
            assert answer.status == 403
        await by_oidc.close()
