"""Analytics and activity: charts with their tables, filters in the address, downloads, budgets, live tail."""

import asyncio
import csv
import io
import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import BrowserContext, Page, expect

from tests.cli.hutch_up_process import Up
from tests.gateway.api_server import eventually
from tests.web.test_accessibility import assert_no_violations
from tests.web.web_sessions import cassette, new_session, until_idle

pytestmark = pytest.mark.anyio

FINISH = {"tool": "finish", "args": {"title": "Done", "summary": "All is there."}}
REPLIES = [
    {
        "text": "Look.",
        "calls": [{"tool": "bash", "args": {"command": "ls"}}],
        "usage": {"input": 1000, "output": 200},
    },
    {"calls": [FINISH], "usage": {"input": 3000, "cached": 1000, "output": 300}},
]
HAS_INK = """element => {
    const canvas = element.querySelector('canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const style = getComputedStyle(document.documentElement).getPropertyValue('--person-1').trim();
    const [r, g, b] = [1, 3, 5].map(at => parseInt(style.slice(at, at + 2), 16));
    let found = 0;
    for (let at = 0; at < data.length; at += 4)
        found += data[at] === r && data[at + 1] === g && data[at + 2] === b;
    return found > 20;
}"""


async def reflows(page: Page) -> None:
    """Nothing is wider than a narrow phone."""
    await page.set_viewport_size({"width": 320, "height": 640})
    await page.wait_for_function("() => document.documentElement.scrollWidth <= 320")
    await page.set_viewport_size({"width": 1280, "height": 800})


async def test_a_run_is_in_table_chart_and_csv_and_filters_are_in_the_address(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    await page.goto(up.url)
    await page.get_by_role("link", name="Analytics").click()
    await expect(page.get_by_role("heading", name="Nothing was counted in this time.")).to_be_visible()
    await expect(page.get_by_text("hutch analytics spend")).to_be_visible()  # nothing yet: how to begin

    session = await new_session(api, prompt="Look.", model=cassette(tmp_path, REPLIES))
    await until_idle(api, session)

    async def is_counted() -> bool:
        spend = (await api.get("/analytics/reports/spend")).json()
        return bool(spend["total"].get("output_tokens") == 500 and spend["behind"] == 0)

    await eventually(is_counted)
    await page.goto(f"{up.url}/analytics?report=spend")
    await page.get_by_label("By", exact=True).select_option("By model")
    row = page.get_by_role("region", name="Table").get_by_role("row").filter(has_text="cassette")
    await expect(row).to_contain_text("4.0k")  # the input of both replies
    await expect(page.locator("[data-total=runs]")).to_contain_text("1")
    await expect(page.get_by_role("region", name="Forecast")).to_contain_text("is expected to cost $0.00")
    await page.get_by_label("Show", exact=True).select_option("Output")
    chart = page.get_by_role("img", name=re.compile("Output per day, .* In total 500"))
    await expect(chart).to_be_visible()
    await page.wait_for_function(f"() => ({HAS_INK})(document.querySelector('[data-chart]'))")
    await page.get_by_text("Values over time").click()
    await expect(page.get_by_role("region", name="Values over time").get_by_role("row")).to_have_count(2)

    await row.get_by_role("link").click()  # only this model
    await expect(page).to_have_url(re.compile(r"/analytics\?report=spend&show=output_tokens&model=scripted"))
    await page.reload()
    await expect(page.get_by_role("button", name=re.compile("Remove the filter model"))).to_be_visible()
    await expect(page.locator("[data-total=runs]")).to_contain_text("1")
    await assert_no_violations(page)
    await reflows(page)
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download as CSV").click()
    file = await started.value
    assert file.suggested_filename == "spend.csv"
    (line,) = csv.DictReader(io.StringIO(await asyncio.to_thread((await file.path()).read_text)))
    assert (line["runs"], line["output_tokens"]) == ("1", "500")


async def test_a_report_is_refused_with_a_way_on_and_a_budget_is_set_removed_and_taken_back(
    logged_in: BrowserContext, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await new_session(api, prompt="Look.", model=cassette(tmp_path, REPLIES))
    await until_idle(api, session)

    async def is_counted() -> bool:
        return bool((await api.get("/analytics/reports/spend")).json()["behind"] == 0)

    await eventually(is_counted)
    page = await logged_in.new_page()  # refusals are errors of the console
    await page.goto(f"{up.url}/analytics?report=latency&step=minute&since=365d")
    await expect(page.get_by_role("alert")).to_contain_text("A report has at most 1500 minutes")
    await page.get_by_role("alert").get_by_role("link", name="Clear the filters").click()
    model = f"model/scripted:{tmp_path / 'cassette.json'}"  # other tests have models of this name
    await expect(page.get_by_title(model, exact=True).first).to_contain_text("Whole reply: cassette")
    await page.goto(f"{up.url}/analytics?report=budgets")
    await expect(page.get_by_text("No budget is set.")).to_be_visible()
    await page.get_by_label("Dollars per month").fill("200")
    await page.keyboard.press("Enter")
    budget = page.get_by_role("row").filter(has_text="This installation")
    await expect(budget).to_contain_text("$0.00 of $200.00")
    await page.get_by_label("Dollars per month").fill("200.50")
    await page.get_by_role("button", name="Set budget").click()
    await expect(budget).to_contain_text("$0.00 of $200.50")
    await budget.get_by_role("button", name="Remove").click()
    await expect(budget).to_have_count(0)
    await page.get_by_role("button", name="Undo").click()
    await expect(budget).to_contain_text("$200.50")
    await expect(page.get_by_text("No alerts.")).to_be_visible()
    await assert_no_violations(page)
    await reflows(page)
    await budget.get_by_role("button", name="Remove").click()
    await expect(budget).to_have_count(0)
    await page.close()


async def test_activity_shows_new_events_live_filters_them_and_pauses(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    await page.goto(up.url)
    await expect(page.get_by_role("link", name="Activity")).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("e")
    await expect(page.locator("[data-connection=live]")).to_be_visible()
    command = "echo '<img src=//evil.example/x>' needle-41"
    replies = [{"calls": [{"tool": "bash", "args": {"command": command}}]}, {"calls": [FINISH]}]
    session = await new_session(api, prompt="Say it.", model=cassette(tmp_path, replies))
    started = page.locator("li[data-type='command.started']").filter(has_text="needle-41")
    await expect(started).to_contain_text("<img src=//evil.example/x>")  # live, and text stays text
    await expect(page.locator("li[data-type='run.ended']").first).to_be_visible()

    await page.keyboard.press("/")
    await page.keyboard.type("needle-41")
    await page.get_by_label("Type or group").fill("command.")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"/activity\?q=needle-41&type=command"))
    await page.reload()
    await expect(started).to_have_count(1)
    await expect(page.locator("li[data-type]:not([data-type^='command.'])")).to_have_count(0)
    await started.get_by_role("button").click()
    await expect(page.get_by_label("Fields")).to_contain_text('"command"')
    await assert_no_violations(page)
    await reflows(page)

    await page.get_by_role("button", name="Pause").click()
    await until_idle(api, session)
    again = await new_session(api, prompt="Again.", model=cassette(tmp_path, replies))
    await until_idle(api, again)
    await expect(page.get_by_role("button", name=re.compile("Resume, . new event"))).to_be_visible()
    await expect(started).to_have_count(1)
    await page.get_by_role("button", name="Resume").click()
    await expect(started).to_have_count(2)
    await page.get_by_label("Text", exact=True).fill("there is no such text")
    await expect(page.get_by_text("No event matches.")).to_be_visible()
    await page.get_by_role("main").get_by_role("button", name="Clear the filters").click()
    await page.locator("li[data-type='run.ended']").first.get_by_role("link").click()
    await expect(page).to_have_url(re.compile(rf"/s/{again}/play\?at="))
