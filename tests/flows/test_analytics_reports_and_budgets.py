"""Budgets stop requests before they are made, and reports are sent once, over real sockets."""

import asyncio
import hashlib
import hmac
import json
import socket
import socketserver
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hutch.domain.errors import BudgetReached
from hutch.domain.events import Event, ModelReplied, RunEnded, RunStarted, SessionOpened, ToolReturned
from hutch.domain.helper_agent_events import HelperEnded
from hutch.domain.ids import new_session_id
from hutch.domain.redaction import Redactor
from hutch.domain.user import Caller, scopes_of
from hutch.flows.analytics.budget_requests import list_budgets, names_of_targets, set_budget
from hutch.flows.analytics.budgeted_model import BudgetedModel, month_name
from hutch.flows.analytics.report_channels import (
    DirectoryChannel,
    EmailChannel,
    Message,
    NotSent,
    WebhookChannel,
)
from hutch.flows.analytics.report_schedule import due_reports
from hutch.flows.analytics.scheduled_reports_and_alerts import Schedule, ScheduledReports
from hutch.flows.analytics.spend_forecast import month_of
from hutch.llm.interface import Delta, Finish, FromUser, Request, Text, Usage
from hutch.llm.reply_cost import Price
from hutch.store.alerts_and_report_deliveries import Alerts, Deliveries
from hutch.store.analytics_projection import DAY_MS
from hutch.store.budgets import Budget, Budgets, BudgetScope, place_of
from hutch.store.event_log import SqlLog, open_log
from hutch.store.users import Users
from hutch.system.clock_without_jumps import wall_ms
from tests.new_database import place_database

pytestmark = pytest.mark.anyio
ASK = Request("", (FromUser("x" * 4_000),))
PRICES = {"test:m": Price(input=1000, cached=1000, output=0)}  # a dollar per thousand tokens
MESSAGE = Message("daily-2026-01-31", "Hutch: daily", "All is well.\n", {"spend": 1})
NANO = 1_000_000_000


def open_at(home: Path):  # type: ignore[no-untyped-def]
    place_database(home)
    return open_log(home / "hutch.db", home / "blobs", home / "signing.pem")


class OneDollarModel:
    """A model whose replies cost a dollar each; it waits for `gate`, and counts requests."""

    name, context_tokens = "test:m", None

    def __init__(self) -> None:
        self.requests, self.gate = 0, asyncio.Event()
        self.gate.set()

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        self.requests += 1
        await self.gate.wait()
        yield Text("Done.")
        yield Usage(input=1000)
        yield Finish("stop")

    async def close(self) -> None:
        """It holds nothing."""


async def ask(model: BudgetedModel) -> None:
    async for _ in model.stream(ASK):
        pass


async def limit(log: SqlLog, usd: float, scope: BudgetScope = "installation", target: str = "") -> None:
    now_ms = wall_ms()
    new = Budget(f"bud_{scope}", scope, target, round(usd * NANO), "usr_o", now_ms)
    await Budgets(log).add(new, month_name(now_ms), month_of(now_ms))


async def test_a_budget_stops_the_next_request_and_warns_once_per_level(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        inner = OneDollarModel()
        model = BudgetedModel(inner, log, "usr_a", "/srv/X.git/", PRICES)
        await ask(model)  # no budget: nothing is checked
        await limit(log, 2, "repository", "/srv/x")
        await ask(model)
        await ask(model)
        with pytest.raises(BudgetReached, match="used up"):
            await ask(model)
        assert inner.requests == 3
        texts = [alert.text for alert in await Alerts(log).newest()]
        assert [text.partition(" ")[0] for text in texts] == ["100", "80", "50"]
        other = BudgetedModel(inner, log, "usr_a", "/srv/y", PRICES)
        await ask(other)
        assert len(await Alerts(log).newest()) == 3


async def test_a_raised_budget_lets_models_answer_again_and_warns_anew(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        ada, bo = [await Users(log).add(name, "owner") for name in ("ada", "bo")]
        owner = Caller(ada, scopes_of("owner"), "local", "local")
        first = await set_budget(log, owner, "user", "bo", 1)
        model = BudgetedModel(OneDollarModel(), log, bo.id, "", PRICES)
        await ask(model)
        with pytest.raises(BudgetReached):
            await ask(model)
        assert (await set_budget(log, owner, "user", "bo", 2)).id == first.id
        await ask(model)
        with pytest.raises(BudgetReached):
            await ask(model)
        states = await list_budgets(log, owner)
        assert [(each.budget.limit_nano_usd, each.percent) for each in states] == [(2 * NANO, 100)]
        assert await names_of_targets(log, states) == {bo.id: "bo"}
        texts = [alert.text for alert in await Alerts(log).newest(viewer=bo.id)]
        assert [text.partition(" ")[0] for text in texts] == ["100", "80", "50"] * 2
        assert all("% of the budget of the user bo for" in text for text in texts)


async def test_a_run_that_nears_its_cost_limit_is_an_alert_once_per_level(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        session_id, unlimited = new_session_id(), new_session_id()
        for id, limit_usd in ((session_id, 2.0), (unlimited, None)):
            started = RunStarted(run_id="r", prompt="", persona="p", model="test:m", max_cost_usd=limit_usd)
            await log.append(id, [SessionOpened(owner="usr_a"), started])

        async def alerts_after(event: Event) -> list[str]:
            for id in (session_id, unlimited):
                await log.append(id, [event])
            await log.analytics_projector().catch_up()
            for _ in range(2):
                await ScheduledReports(log, Redactor(), Schedule()).tick()
            found = await Alerts(log).newest(viewer="usr_b") + await Alerts(log).newest()
            assert {alert.session_id for alert in found} <= {session_id}
            return [alert.text for alert in found]

        reply = ModelReplied(run_id="r", turn=1, cost_usd=0.9)
        assert await alerts_after(reply) == []
        about = f"% of the cost limit of a run in {session_id} is spent:"
        helper = HelperEnded(run_id="r", name="h", helper="ses_h", outcome="done", cost_usd=0.2)
        assert await alerts_after(helper) == [f"50 {about} $1.10 of $2.00."]
        assert await alerts_after(reply) == [f"100 {about} $2.00 of $2.00.", f"50 {about} $1.10 of $2.00."]


async def test_no_spelling_of_a_repository_evades_its_budget(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        await limit(log, 1, "repository", place_of("https://github.com/Acme/Shop.git"))
        inner = OneDollarModel()
        spellings = (
            "git@github.com:acme/shop",
            "ssh://git@github.com:22/acme//shop.git",
            "https://me@www.github.com/acme/shop/",
        )
        await ask(BudgetedModel(inner, log, "usr_a", spellings[0], PRICES))
        for each in spellings:
            with pytest.raises(BudgetReached):
                await ask(BudgetedModel(inner, log, "usr_a", each, PRICES))
        assert inner.requests == 1


async def test_concurrent_runs_and_broken_replies_cannot_overspend(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        await limit(log, 3, "user", "usr_a")
        inner = OneDollarModel()
        inner.gate.clear()
        models = [BudgetedModel(inner, log, "usr_a", f"/srv/{n}", PRICES) for n in range(10)]
        asking = [asyncio.ensure_future(ask(model)) for model in models]
        refused, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        while len(refused) < 7:  # three requests of a dollar are under way
            done, _ = await asyncio.wait(set(asking) - refused, return_when=asyncio.FIRST_COMPLETED)
            refused |= done
        assert all(isinstance(each.exception(), BudgetReached) for each in refused)
        inner.gate.set()
        await asyncio.gather(*set(asking) - refused)
        assert inner.requests == 3
        (state,) = await Budgets(log).states(month_name(wall_ms()))
        assert (state.spent_nano_usd, state.reserved_nano_usd, state.percent) == (3 * NANO, 0, 100)


async def test_a_cancelled_request_an_unknown_price_and_an_erasure_do_not_evade(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        session_id = new_session_id()
        started = RunStarted(run_id="r", prompt="", persona="p", model="test:m")
        await log.append(
            session_id, [SessionOpened(owner="usr_a"), started, ModelReplied(run_id="r", turn=1, cost_usd=1)]
        )
        await log.analytics_projector().catch_up()
        await limit(log, 2, "user", "usr_a")
        (state,) = await Budgets(log).states(month_name(wall_ms()))
        assert state.spent_nano_usd == NANO  # spent before there was a budget
        await log.erase(session_id, None, reason="to hide it")
        model = BudgetedModel(OneDollarModel(), log, "usr_a", "", PRICES)
        reply = model.stream(ASK)
        assert await anext(reply) == Text("Done.")
        await reply.aclose()
        (state,) = await Budgets(log).states(month_name(wall_ms()))
        assert (state.spent_nano_usd, state.reserved_nano_usd) == (2 * NANO, 0)
        with pytest.raises(BudgetReached):
            await ask(model)
        with pytest.raises(BudgetReached, match="price of test:m is unknown"):
            await ask(BudgetedModel(OneDollarModel(), log, "usr_a", "", {}))


class SmtpHandler(socketserver.StreamRequestHandler):
    """Speaks SMTP as a server does, and keeps the mails."""

    def handle(self) -> None:
        server: SmtpServer = self.server  # type: ignore[assignment]
        self.wfile.write(b"220 ready\r\n")
        while line := self.rfile.readline():
            word = line.strip().upper().split(b" ")[0]
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = []
                while (text := self.rfile.readline()) != b".\r\n":
                    lines.append(text)
                server.mails.append(b"".join(lines))
                if server.drops:
                    return  # after the mail was taken: its sender cannot know
                self.wfile.write(b"250 taken\r\n")
            elif word == b"RCPT" and server.refuses:
                self.wfile.write(b"550 no such user\r\n")
            elif word == b"QUIT":
                return
            else:
                self.wfile.write(b"250 fine\r\n")


class SmtpServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    refuses = drops = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SmtpHandler)
        self.mails: list[bytes] = []


class HookHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.found.append((dict(self.headers), body))  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serve(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def email(port: int) -> EmailChannel:
    return EmailChannel(
        "127.0.0.1", port, "none", "", "hutch@example.com", ("a@example.com",), lambda name: ""
    )


async def test_reports_are_sent_once_also_after_a_restart(tmp_path: Path) -> None:
    smtp = SmtpServer()
    hook = ThreadingHTTPServer(("127.0.0.1", 0), HookHandler)
    hook.found = []  # type: ignore[attr-defined]
    with serve(smtp), serve(hook):
        url = f"http://127.0.0.1:{hook.server_address[1]}/hutch?x=1"
        channels = (
            email(smtp.server_address[1]),
            WebhookChannel(url, lambda name: "shared secret"),
            DirectoryChannel(tmp_path / "reports"),
        )
        schedule = Schedule("00:00", "monday", channels=channels, version="Hutch 1")
        async with open_at(tmp_path) as log:
            session_id = new_session_id()
            replies = [ModelReplied(run_id="r", turn=1) for _ in range(2)]
            failed = [
                ToolReturned(run_id="r", call_id="c", tool="bash", ok=False, text="") for _ in range(20)
            ]
            stuck = RunEnded(run_id="r", outcome="limit_reached", reason="It repeated itself")
            started = RunStarted(run_id="r", prompt="", persona="p", model="test:m")
            await log.append(session_id, [SessionOpened(owner="usr_a"), started, *replies, *failed, stuck])
            await log.analytics_projector().catch_up()
            at_ms = wall_ms() + DAY_MS  # tomorrow: today's report is due
            for _ in range(3):  # each is a server that starts anew
                await ScheduledReports(log, Redactor(), schedule, now_ms=lambda: at_ms).tick()
                await ScheduledReports(log, Redactor(), schedule).tick()
            kinds = {alert.kind for alert in await Alerts(log).newest()}
            assert kinds == {"no_progress", "tool_errors", "unpriced"}
            names = [json.loads(body)["name"] for _, body in hook.found]  # type: ignore[attr-defined]
            assert len(names) == len(set(names)) == len(smtp.mails)
            (daily,) = (name for name in names if name.startswith("daily-"))  # none of before the first event
            for headers, body in hook.found:  # type: ignore[attr-defined]
                signature = hmac.new(b"shared secret", body, hashlib.sha256).hexdigest()
                assert headers["X-Hutch-Signature-256"] == f"sha256={signature}"
            text = (tmp_path / "reports" / f"{daily}.txt").read_text()
            assert "\nSpend\n  Replies without a price           2\n" in text
            subject = f"Subject: Hutch, {daily[6:]}: 0 changes merged of 1 session, $0.00"
            assert sum(subject.encode() in mail for mail in smtp.mails) == 1
            assert sorted(path.stem for path in (tmp_path / "reports").glob("*.json")) == sorted(names)


async def test_a_refused_mail_is_tried_again_and_one_in_doubt_is_not(tmp_path: Path) -> None:
    smtp = SmtpServer()
    with serve(smtp):
        channel = email(smtp.server_address[1])
        smtp.refuses = True
        with pytest.raises(NotSent):
            await asyncio.to_thread(channel.send, MESSAGE)
        smtp.refuses, smtp.drops = False, True
        async with open_at(tmp_path) as log:
            await log.append(new_session_id(), [SessionOpened(owner="usr_a")])
            schedule, at_ms = Schedule("00:00", channels=(channel,)), wall_ms() + DAY_MS
            for _ in range(2):
                await ScheduledReports(log, Redactor(), schedule, now_ms=lambda: at_ms).tick()
            assert len(smtp.mails) == 1
            (due,) = due_reports("00:00", None, at_ms)
            assert await Deliveries(log).states(due.name) == {"email": "unknown"}
            claims, now_ms = Deliveries(log), wall_ms()
            assert await claims.claim("r", "email", now_ms)
            assert not await claims.claim(
                "r", "email", now_ms + DAY_MS
            )  # the process died while it was sending
            await claims.finish("r", "email", "failed", "refused", now_ms)
            assert not await claims.claim("r", "email", now_ms)  # too early
            assert await claims.claim("r", "email", now_ms + DAY_MS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(NotSent):
            await asyncio.to_thread(email(free.getsockname()[1]).send, MESSAGE)


def test_a_report_that_was_missed_is_due_until_the_next() -> None:
    wednesday = 1_763_596_800_000 - DAY_MS  # 2025-11-19, midnight
    names = [due.name for due in due_reports("07:00", "monday", wednesday + 8 * 3_600_000)]
    assert names == ["daily-2025-11-18", "weekly-2025-11-16"]
    assert [due.name for due in due_reports("07:00", None, wednesday + 6 * 3_600_000)] == ["daily-2025-11-17"]
    assert due_reports(None, None, wednesday) == []
