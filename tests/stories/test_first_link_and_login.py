"""People come in to a real server with a real browser: the first link, a provider, and being sent away."""

import asyncio
import json
import time
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page

from tests.cli.hutch_up_process import TIMEOUT_S, Home
from tests.forked_command import HUTCH, run
from tests.gateway.headless_browser import chromium
from tests.gateway.oidc_provider import CLIENT, SECRET, identity_provider

pytestmark = pytest.mark.anyio
PASSWORD = "correct horse battery"


def keep_secret(home: Home) -> None:
    done = run(
        [HUTCH, "config", "set-secret", "oidc_client_secret"],
        env=home.environment(),
        input=SECRET,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr


async def new_visitor(browser: Browser) -> Page:
    """A page of somebody who was never here."""
    page = await (await browser.new_context()).new_page()
    page.set_default_timeout(TIMEOUT_S * 1000)
    return page


async def status(page: Page, url: str) -> int:
    answer = await page.goto(url)
    assert answer is not None
    return answer.status


async def test_the_owner_a_colleague_and_a_program(tmp_path: Path) -> None:
    home = Home(tmp_path, is_new=True)
    keep_secret(home)
    async with identity_provider() as provider, chromium() as browser:
        provider.asks = True
        with home.up(
            HUTCH_OIDC__ISSUER=provider.url,
            HUTCH_OIDC__CLIENT_ID=CLIENT,
            HUTCH_OIDC__ALLOWED_DOMAINS="example.org",
        ) as up:
            me = f"{up.url}/api/v1/me"

            # The owner, by the link that the first start prints.
            owners = await new_visitor(browser)
            assert await status(owners, me) == 401
            await owners.goto(up.printed["link"])
            await owners.click("#login button")
            await owners.fill("#new", PASSWORD)
            async with owners.expect_navigation():
                await owners.click("#password button:has-text('Set it')")
            assert await status(owners, me) == 200
            again = await new_visitor(browser)
            await again.goto(up.printed["link"])
            await again.click("#login button")
            await again.locator("#said", has_text="was used").wait_for()

            # A colleague, by the provider.
            colleague = await new_visitor(browser)
            await colleague.goto(f"{up.url}/api/v1/login/oidc?next=/api/v1/me")
            async with colleague.expect_navigation(url=me):
                await colleague.click("#go")
            result = await colleague.evaluate("JSON.parse(document.body.innerText)")
            assert (result["user"]["name"], result["user"]["role"]) == ("ada@example.org", "member")
            assert await status(colleague, f"{up.url}/api/v1/users") == 403
            assert await status(owners, f"{up.url}/api/v1/users") == 200

            # A program, by a token; both it and the colleague are sent away while the server runs.
            done = await asyncio.to_thread(home.hutch, "tokens", "create", "--json", "--scope", "read")
            token = json.loads(done.stdout)
            shown = {"Authorization": f"Bearer {token['token']}"}
            async with httpx.AsyncClient(headers=shown, trust_env=False, timeout=TIMEOUT_S) as http:
                assert (await http.get(me)).status_code == 200
                for words in (("tokens", "revoke", token["id"]), ("users", "disable", "ada@example.org")):
                    done = await asyncio.to_thread(home.hutch, *words)
                    assert done.returncode == 0, done.stderr
                until = time.monotonic() + TIMEOUT_S
                while (await http.get(me)).status_code != 401 or await status(colleague, me) != 401:
                    assert time.monotonic() < until
                    await asyncio.sleep(0.2)
            assert await status(owners, me) == 200

    audit = home.hutch("users", "audit", "--json").stdout.splitlines()
    actions = [json.loads(line)["action"] for line in audit]
    wanted = ["user.added", "link.made", "login", "user.password_set", "user.identified", "token.created"]
    assert set(wanted) <= set(actions)
    assert token["token"] not in "".join(audit)
