"""Comments and reviews as rows: a newer review by the agent takes the place of the last one."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.errors import NotFound
from hutch.domain.review import AGENT, Comment, Remark, Review
from hutch.flows.reviews.user_reviews import make_comment
from hutch.store.comments_and_reviews import Comments, Reviews
from hutch.store.event_log import open_log
from hutch.store.table_access_interface import Rows
from tests.new_database import place_database

pytestmark = pytest.mark.anyio

REVIEW = Review(
    id="rvw_1",
    change_id="chg_1",
    author=AGENT,
    verdict="commented",
    body="Fine.",
    commit="c" * 40,
    session_id="ses_1",
    run_id="run_1",
    created_ms=1,
)


@pytest.fixture
async def rows(tmp_path: Path) -> AsyncIterator[Rows]:
    place_database(tmp_path)
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key") as log:
        yield log


def about(review: Review, body: str) -> list[Comment]:
    remark = Remark(path="a", line=1, body=body, severity="could")
    return [make_comment(remark, review.change_id, review.commit, AGENT, review.id)]


async def bodies(rows: Rows) -> list[str]:
    return [each.body for each in await Comments(rows).of_change("chg_1")]


async def test_a_second_review_of_a_commit_takes_the_place_of_the_first(rows: Rows) -> None:
    reviews = Reviews(rows)
    by_person = make_comment(Remark(path="a", line=1, body="mine"), "chg_1", REVIEW.commit, "usr_1")
    await Comments(rows).add(by_person)
    await reviews.add(REVIEW, about(REVIEW, "one"))
    second = replace(REVIEW, id="rvw_2", run_id="run_2")
    await reviews.add(second, about(second, "two"))
    assert await reviews.of_change("chg_1") == [second]
    assert await bodies(rows) == ["mine", "two"]
    newer = replace(REVIEW, id="rvw_3", run_id="run_3", commit="d" * 40)
    await reviews.add(newer, about(newer, "three"))
    assert await reviews.of_change("chg_1") == [second, newer]
    assert await bodies(rows) == ["mine", "two", "three"]


async def test_a_run_gives_one_review_however_often_it_is_submitted(rows: Rows) -> None:
    reviews = Reviews(rows)
    await reviews.add(REVIEW, about(REVIEW, "one"))
    again = replace(REVIEW, id="rvw_2")
    assert await reviews.add(again, about(again, "again")) == REVIEW
    assert await reviews.of_run("run_1") == REVIEW
    assert await bodies(rows) == ["one"]


async def test_a_comment_of_another_change_is_not_there(rows: Rows) -> None:
    [comment] = about(REVIEW, "one")
    await Comments(rows).add(comment)
    with pytest.raises(NotFound):
        await Comments(rows).resolve("chg_2", comment.id, "usr_1")
    [kept] = await Comments(rows).of_change("chg_1", resolved=False)
    assert kept == comment


async def test_one_that_is_to_be_posted_takes_the_place_of_the_last_when_it_was(rows: Rows) -> None:
    reviews = Reviews(rows)
    first = replace(REVIEW, pull_url="https://example.com/a/b/pull/1", url="https://example.com/r/1")
    tried = replace(first, id="rvw_2", run_id="run_2", url="")
    lost = replace(first, id="rvw_3", run_id="run_3", url="")
    await reviews.add(first, about(first, "one"))
    await reviews.add(tried, about(tried, "two"))
    await reviews.add(lost, about(lost, "three"))
    assert await reviews.of_pull(first.pull_url, first.commit) == first
    assert await reviews.pending(first.pull_url, first.commit) == [tried, lost]
    assert await reviews.pending(first.pull_url, "d" * 40) == []
    await reviews.delete(lost)
    assert await bodies(rows) == ["one", "two"]
    noted = await reviews.mark_posted(tried, "https://example.com/r/2")
    assert noted == replace(tried, url="https://example.com/r/2")
    assert await reviews.of_change("chg_1") == [noted]
    assert await reviews.pending(first.pull_url, first.commit) == []
    assert await bodies(rows) == ["two"]
