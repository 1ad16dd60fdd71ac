"""The analytics over REST and in the terminal: one response for chart and table, CSV, and who sees what."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from hutch.store.alerts_and_report_deliveries import Alerts, NewAlert
from tests.gateway.api_server import V1, Api, eventually, serving

pytestmark = pytest.mark.anyio
REPORTS = f"{V1}/analytics/reports"
REPLIES = [{"text": "Done.", "usage": {"input": 100, "cached": 40, "output": 7}, "times": 100}]


async def counted(api: Api, name: str, runs: int, **which: Any) -> dict[str, Any]:
    """A report, once as many runs are in it and nothing is missing."""

    async def poll() -> dict[str, Any] | None:
        found = dict((await api.get(f"{REPORTS}/{name}", params=which)).raise_for_status().json())
        is_whole = not found["behind"] and sum(row["values"]["runs"] for row in found["rows"]) == runs
        return found if is_whole else None

    return dict(await eventually(poll))


async def test_a_report_has_a_chart_and_its_table_for_what_the_caller_may_see(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=REPLIES) as api:
        bob, eve = await api.as_user("bob"), await api.as_user("eve")
        await api.ready_session(prompt="One.")
        bobs = [await bob.ready_session(prompt="One."), await bob.ready_session(prompt="Two.")]
        spend = await counted(api, "spend", 3, group="user", step="hour")
        names = {row["label"]: row["values"]["input_tokens"] for row in spend["rows"]}
        assert names["bob"] == 200
        assert spend["total"]["input_tokens"] == 300
        assert spend["total"]["cached_share"] == 0.4
        for series in spend["series"]:  # the lines of the chart add up to the rows of the table
            of_row = next((r["values"] for r in spend["rows"] if r["key"] == series["key"]), spend["total"])
            assert sum(series["values"]["input_tokens"]) == of_row["input_tokens"]
            assert len(series["values"]["cost_usd"]) == len(spend["times_ms"])
        assert {column["name"] for column in spend["columns"]} == set(spend["total"])

        assert (await counted(api, "spend", 2, user="bob"))["total"]["runs"] == 2  # by name, too
        assert (await api.get(f"{REPORTS}/spend", params={"user": "nobody"})).status_code == 404

        # The funnel counts tasks that the reader has made, owns, or has a session of.
        for client, owner in ((api, ""), (api, "bob"), (bob, "")):
            task = {"title": "T", "repository": "https://github.com/acme/shop", "owner": owner}
            assert (await client.post(f"{V1}/tasks", json=task)).status_code == 201
        for client, which, count in (
            (api, {}, 3),
            (api, {"repository": "git@github.com:acme/shop.git"}, 3),
            (api, {"repository": "https://github.com/acme/other"}, 0),
            (api, {"user": "bob"}, 2),
            (bob, {}, 2),
            (eve, {}, 0),
        ):
            funnel = (await client.get(f"{REPORTS}/outcomes", params=which)).json()["funnel"]
            assert funnel["tasks"] == count, (which, funnel)

        # Members see their own sessions and those shared with them, nothing else, in every report.
        assert {row["key"] for row in (await counted(bob, "spend", 2, group="session"))["rows"]} == set(bobs)
        assert (await counted(eve, "spend", 0, group="user"))["rows"] == []
        shared = await bob.put(f"{V1}/sessions/{bobs[0]}/shares/eve", json={"role": "observer"})
        assert shared.is_success, shared.text
        (row,) = (await counted(eve, "spend", 1, group="session"))["rows"]
        assert row["key"] == bobs[0]
        assert (await counted(eve, "reliability", 1))["total"]["runs_done"] == 1
        outcomes = (await eve.get(f"{REPORTS}/outcomes")).json()
        assert outcomes["total"]["sessions"] == 1
        latency = (await eve.get(f"{REPORTS}/latency")).json()
        assert {row["key"]: row["values"]["count"] for row in latency["rows"]}["jail/"] == 1
        lines = {series["key"]: sum(series["values"]["count"]) for series in latency["series"]}
        assert lines["jail/"] == 1

        # So they see alerts: those of their own sessions, of shared ones, and no others.
        alerts = [NewAlert(key=each, kind="no_progress", text="stuck", session_id=each) for each in bobs]
        await Alerts(api.server.rows).add([*alerts, NewAlert(key="all", kind="unpriced", text="x")], 1)
        for client, seen in ((bob, set(bobs)), (eve, {bobs[0]}), (api, {*bobs, ""})):
            listed = (await client.get(f"{V1}/analytics/alerts")).json()
            assert {each["session_id"] for each in listed} == seen
        assert (await (await api.as_nobody()).get(f"{REPORTS}/spend")).status_code == 401
        candidate = await api.as_user("carl", "candidate")
        assert (await candidate.get(f"{REPORTS}/spend")).status_code == 403

        found = (await eve.get(f"{V1}/analytics/sessions/{bobs[0]}/waterfall")).json()
        kinds = [(span["kind"], span["depth"]) for span in found["spans"]]
        assert ("run", 0) in kinds and ("model", 1) in kinds and ("prepare", 0) in kinds
        assert (await eve.get(f"{V1}/analytics/sessions/{bobs[1]}/waterfall")).status_code == 404


async def test_csv_filters_annotations_and_refusals(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=REPLIES) as api:
        await api.ready_session(prompt="One.")
        await counted(api, "spend", 1)
        by_suffix = await api.get(f"{REPORTS}/spend.csv", params={"group": "model"})
        by_header = await api.get(
            f"{REPORTS}/spend", params={"group": "model"}, headers={"Accept": "text/csv"}
        )
        assert by_suffix.text == by_header.text
        assert by_suffix.headers["content-type"].startswith("text/csv")
        (line,) = csv.DictReader(io.StringIO(by_suffix.text))
        assert (line["runs"], line["input_tokens"]) == ("1", "100")
        series = await api.get(f"{REPORTS}/spend.csv", params={"table": "series", "step": "hour"})
        assert sum(int(each["runs"]) for each in csv.DictReader(io.StringIO(series.text))) == 1
        assert (await counted(api, "spend", 0, repository="/elsewhere"))["rows"] == []

        bob = await api.as_user("bob")
        note = {"text": "A new model."}
        assert (await bob.post(f"{V1}/analytics/annotations", json=note)).status_code == 403
        made = (await api.post(f"{V1}/analytics/annotations", json=note)).json()
        marked = (await bob.get(f"{REPORTS}/spend")).json()["annotations"]
        assert made in marked
        assert (await api.delete(f"{V1}/analytics/annotations/{made['id']}")).status_code == 204
        assert (await api.delete(f"{V1}/analytics/annotations/{made['id']}")).status_code == 404

        for wrong in (
            {"since": "2030-01-02", "until": "2030-01-01"},
            {"since": "2000-01-01", "step": "minute"},
            {"since": "yesterday"},
            {"group": "lines"},
            {"step": "week"},
            {"x": "1"},
        ):
            assert (await api.get(f"{REPORTS}/spend", params=wrong)).status_code in (400, 422), wrong
        assert (await api.get(f"{REPORTS}/lines")).status_code == 422
        assert (await api.get(f"{REPORTS}/latency", params={"group": "user"})).status_code == 400
