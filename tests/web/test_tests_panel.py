"""The panel of tests: a run of some tests leaves the results of the others."""

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.web.web_sessions import new_session

pytestmark = pytest.mark.anyio


async def test_a_run_of_one_test_leaves_the_results_of_the_others(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api)
    await page.goto(f"{up.url}/s/{session}?panel=tests")
    tests = page.get_by_role("region", name="Tests")
    await tests.get_by_role("button", name="Run all").first.click()
    accents = tests.get_by_role("button", name="test_accents_are_dropped", exact=True)
    words = tests.get_by_role("button", name="test_words_are_joined_by_hyphens", exact=True)
    await expect(accents).to_be_visible()
    await expect(tests.get_by_text("1 failed, 1 passed").first).to_be_visible()
    await expect(tests.get_by_text("earlier run")).to_have_count(0)

    await words.hover()
    await tests.get_by_role("button", name="Run this test: test_slugs.Slugs.test_words").click()
    await expect(tests.get_by_text("1 of 2 tests; the others are of earlier runs")).to_be_visible()
    await expect(accents).to_be_visible()
    await expect(tests.get_by_text("earlier run", exact=True)).to_have_count(1)
    await expect(tests.get_by_text("AssertionError")).to_be_visible()  # of the run before

    await accents.click()  # leads to the line that failed
    line = page.locator(".cm-activeLine")
    await expect(line).to_contain_text('self.assertEqual(slugify("Crème')
    await expect(line).to_be_in_viewport()
