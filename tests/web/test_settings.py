"""People change settings in a real browser."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page, Route, expect

from tests.cli.hutch_up_process import TIMEOUT_S, Up
from tests.web.conftest import WIDE
from tests.web.test_accessibility import violations
from tests.web.web_sessions import cassette, new_session

pytestmark = pytest.mark.anyio

PUSH = {"text": "Ready.", "calls": [{"tool": "bash", "args": {"command": "echo pushed"}}]}
FINISH = {"calls": [{"tool": "finish", "args": {"title": "Pushed it", "summary": "All is there."}}]}


async def test_an_approval_for_always_is_listed_and_asks_again_once_withdrawn(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    model = cassette(tmp_path, [PUSH, FINISH, PUSH, FINISH])
    session = await new_session(api, prompt="Push.", model=model, persona="pair")
    await page.goto(f"{up.url}/s/{session}")
    card = page.get_by_role("region", name="Needs you, 1 of 1")
    await card.get_by_role("button", name="Always allow").click()
    await expect(page.get_by_text("allowed always by")).to_be_visible()

    await page.goto(f"{up.url}/settings/approvals")
    await expect(page.get_by_role("cell", name="bash", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Withdraw").click()
    await expect(page.get_by_text("No permanent approvals.")).to_be_visible()
    await api.post(f"/sessions/{session}/inputs", json={"type": "prompt", "text": "Again."})
    await page.goto(f"{up.url}/s/{session}")
    await expect(card).to_be_visible()


async def test_the_editor_of_rules_says_them_in_words_and_explains_a_call(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    await page.goto(f"{up.url}/settings/rules")
    await page.get_by_label("Name").fill("no-push")
    await page.get_by_label("Rules, one per line").fill("deny bash git push\nforbid everything")
    await expect(page.get_by_text("refuses bash git push")).to_be_visible()
    await expect(page.get_by_text("Not a rule: “forbid everything”")).to_be_visible()
    await expect(page.get_by_role("button", name="Add", exact=True)).to_be_disabled()
    await page.get_by_label("Rules, one per line").fill("deny bash git push")
    await page.get_by_role("button", name="Add", exact=True).click()
    policy = page.get_by_role("region", name="no-push")
    await expect(policy.get_by_text("refuses bash git push")).to_be_visible()

    await page.get_by_role("textbox", name="Call").fill("bash git push origin main")
    await page.get_by_role("button", name="Explain").click()
    await expect(page.get_by_text("It would be refused.")).to_be_visible()
    await policy.get_by_role("button", name="Remove").click()
    await expect(policy).to_have_count(0)
    assert json.loads((await api.get("/policies")).text)["items"] == []


async def test_people_are_invited_and_change_their_role(page: Page, up: Up, api: httpx.AsyncClient) -> None:
    added = await api.post("/users", json={"name": "bo", "role": "member"})
    assert added.status_code == 201, added.text
    await page.goto(f"{up.url}/settings/users")
    await page.get_by_label("Role of bo").select_option("observer")
    await expect(page.get_by_label("Role of bo")).to_have_value("observer")
    row = page.get_by_role("row", name="bo")
    await row.get_by_role("button", name="Disable").click()
    await expect(row.get_by_text("disabled")).to_be_visible()
    await page.get_by_role("button", name="Invite").click()
    await expect(page.get_by_text("/link#hutchinvite_")).to_be_visible()
    shown = (await api.get(f"/users/{added.json()['id']}")).json()
    assert (shown["role"], shown["disabled"]) == ("observer", True)


async def test_secrets_are_stored_replaced_and_deleted_and_never_come_back(
    logged_in: BrowserContext, up: Up, api: httpx.AsyncClient
) -> None:
    page = await logged_in.new_page()
    value = "Zq7-KvRwtHnmxuE\n93kxlPmw0TZq7KvRwtH"
    await page.goto(f"{up.url}/settings/secrets")
    installation = page.get_by_role("region", name="Secrets of the installation")
    await installation.get_by_label("Name", exact=True).fill("github_app_key")
    await expect(installation.get_by_text("Used for: the private key of the GitHub App")).to_be_visible()
    await installation.get_by_label("Value").fill(value)
    await installation.get_by_role("button", name="Store").click()
    await expect(installation.get_by_text("github_app_key is stored.")).to_be_visible()
    await expect(installation.get_by_label("Value")).to_have_value("")
    await expect(installation.get_by_role("cell", name="github_app_key", exact=True)).to_be_visible()

    own = page.get_by_role("region", name="Your secrets for jails")
    await own.get_by_label("Variable", exact=True).fill("PATH")
    await own.get_by_label("Value").fill(value)
    await own.get_by_role("button", name="Store").click()
    await expect(own.get_by_role("alert")).to_contain_text("Variable PATH is set by Hutch itself")
    await own.get_by_label("Variable", exact=True).fill("STRIPE_KEY")
    await own.get_by_role("button", name="Store").click()
    await expect(own.get_by_role("cell", name="STRIPE_KEY", exact=True)).to_be_visible()
    session = await new_session(api, secrets=["STRIPE_KEY"])
    await page.reload()
    await expect(own.get_by_role("link", name=session[-6:])).to_be_visible()

    await own.get_by_role("button", name="Delete STRIPE_KEY").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("1 open session that gets it cannot be opened again")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(own.get_by_text("You have stored none.")).to_be_visible()
    shown = await page.content()
    assert not any(part in shown for part in value.splitlines())
    await page.close()


async def test_a_session_is_shared_and_a_viewer_changes_nothing(
    page: Page, browser: Browser, up: Up, api: httpx.AsyncClient
) -> None:
    viewer = (await api.post("/users", json={"name": "vi", "role": "member"})).json()
    session = await new_session(api, purpose="Shared work")
    await page.goto(f"{up.url}/s/{session}")
    await page.get_by_role("button", name="More actions").first.click()
    await page.get_by_role("menuitem", name="Share…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("It is shared with nobody else.")).to_be_visible()
    await dialog.get_by_label("Share with").fill("vi")
    await dialog.get_by_role("button", name="Share", exact=True).click()
    role = dialog.get_by_label("Role of vi")
    await expect(role).to_have_value("observer")
    assert await violations(page) == []

    link = (await api.post(f"/users/{viewer['id']}/link")).json()["url"]
    other = await browser.new_context(viewport=WIDE, locale="en-GB")
    other.set_default_timeout(TIMEOUT_S * 1000)
    await other.request.post(f"{up.url}/api/v1/login/link", data={"link": link.partition("#")[2]})
    watching = await other.new_page()
    await watching.goto(f"{up.url}/s/{session}")
    await expect(watching.get_by_text("You are watching.")).to_be_visible()
    await watching.get_by_role("button", name="More actions").first.click()
    await expect(watching.get_by_role("menuitem", name="Play back this session")).to_be_visible()
    await expect(watching.get_by_role("menuitem", name="Share…")).to_have_count(0)

    await role.select_option("member")
    await expect(role).to_have_value("member")
    await watching.goto(f"{up.url}/s/{session}")
    await expect(watching.get_by_role("textbox", name="Message to the agent")).to_be_visible()
    await dialog.get_by_role("button", name="Withdraw from vi").click()
    await expect(dialog.get_by_text("It is shared with nobody else.")).to_be_visible()
    await watching.goto(f"{up.url}/s/{session}")
    await expect(watching.get_by_text("There is nothing here")).to_be_visible()
    await other.close()
    await dialog.get_by_role("button", name="Create a read-only link").click()
    await expect(dialog.get_by_text("/link#hutchinvite_")).to_be_visible()


async def test_a_token_has_the_chosen_scopes_and_expiry_and_ends_when_revoked(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    await page.goto(f"{up.url}/settings/tokens")
    await page.get_by_role("textbox", name="Name").fill("ci")
    await page.get_by_role("combobox", name="Expires").select_option("")
    await expect(page.get_by_text("works until somebody revokes it")).to_be_visible()
    await page.get_by_role("combobox", name="Expires").select_option("7")
    await page.get_by_role("radio", name="write").check()
    await page.get_by_role("button", name="Create", exact=True).click()
    secret = await page.get_by_role("status").locator("code").inner_text()
    row = page.get_by_role("row", name="ci")
    await expect(row).to_contain_text("not yet")
    [made] = [each for each in (await api.get("/tokens")).json()["items"] if each["name"] == "ci"]
    assert made["scopes"] == ["read", "write"]
    assert 6 < (made["expires_ms"] - made["created_ms"]) / 86_400_000 < 8

    headers = {"Authorization": f"Bearer {secret}"}
    assert (await api.get("/sessions", headers=headers)).status_code == 200
    assert (await api.get("/secrets", headers=headers)).status_code == 403
    await row.get_by_role("button", name="Revoke ci").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(row).to_have_count(0)
    assert (await api.get("/sessions", headers=headers)).status_code == 401


async def test_the_list_of_keys_and_the_palette_show_the_same_keys(page: Page, up: Up) -> None:
    await page.goto(f"{up.url}/settings/you")
    await expect(page.get_by_role("heading", name="Theme")).to_be_visible()
    await page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    listed = keys.get_by_role("region", name="While no field has the focus")
    await expect(listed).to_contain_text("g h")
    assert await violations(page) == []
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("option", name="Home")).to_contain_text("g h")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_label("Current password").focus()
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("combobox", name="Go to, find or do")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.get_by_label("Current password")).to_be_focused()  # a dialog gives the focus back
    await page.get_by_role("heading", name="Theme").click()
    await page.keyboard.press("g")
    await page.keyboard.press("h")
    await expect(page).to_have_url(f"{up.url}/")


async def test_keys_that_are_typed_before_the_palette_is_loaded_count(page: Page, up: Up) -> None:
    loads = asyncio.Event()

    async def hold(route: Route) -> None:
        await loads.wait()
        await route.continue_()

    await page.route("**/assets/palette_dialogs*", hold)
    await page.goto(f"{up.url}/settings/you")
    await page.get_by_label("Current password").focus()
    await page.keyboard.press("Control+k")
    await expect(page.get_by_placeholder("Go to, find or do")).to_be_focused()
    await page.keyboard.type("> keys")
    await page.keyboard.press("Enter")
    loads.set()
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


async def test_an_owner_writes_a_persona_and_wrong_fields_say_why(
    logged_in: BrowserContext, up: Up, api: httpx.AsyncClient
) -> None:
    page = await logged_in.new_page()
    await page.goto(f"{up.url}/settings/personas")
    await page.get_by_role("button", name="New persona").click()
    dialog = page.get_by_role("dialog", name="New persona")
    await dialog.get_by_label("Name").fill("deps")
    await dialog.get_by_label("Prompt").fill("Update one dependency.")
    await dialog.get_by_label("Rules, one per line").fill("deny bash git push\nforbid all")
    await dialog.get_by_role("checkbox", name="All tools").uncheck()
    await dialog.get_by_role("checkbox", name="bash", exact=True).check()
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("rules")
    assert await violations(page) == []
    await dialog.get_by_label("Rules, one per line").fill("deny bash git push")
    await dialog.get_by_role("button", name="Save").click()
    card = page.get_by_role("region", name="deps")
    await expect(card.get_by_text("own")).to_be_visible()
    made = (await api.get("/personas/deps")).json()
    assert (made["tools"], made["rules"]) == (["bash"], ["deny bash git push"])

    await card.get_by_role("button", expanded=False).click()
    await expect(card.get_by_text("refuses bash git push")).to_be_visible()
    await card.get_by_role("button", name="Delete deps").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(card).to_have_count(0)
    await page.close()
