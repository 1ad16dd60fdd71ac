"""The background work of the analytics: retention, alerts, and reports on their schedule.

A report is claimed in the database before it is sent, so no restart and no second process sends it again.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import asdict, field
from functools import partial

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.ids import new_annotation_id
from hutch.domain.redaction import Redactor
from hutch.flows.analytics.alert_rules import WINDOW_MS, alerts_of, run_cost_alerts
from hutch.flows.analytics.report_channels import Channel, Message, NotSent
from hutch.flows.analytics.report_digest import digest_message, digest_parts
from hutch.flows.analytics.report_schedule import DueReport, due_reports
from hutch.flows.analytics.reports import iso_time
from hutch.store.alerts_and_report_deliveries import Alert, Alerts, Deliveries
from hutch.store.analytics_from_events import MINUTE_MS
from hutch.store.analytics_projection import DAY_MS
from hutch.store.analytics_queries import Analytics, Window
from hutch.store.chart_annotations import Annotation, AnnotationKind, Annotations
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

TICK_INTERVAL_S = 20.0
PRUNE_INTERVAL_MS = 3_600_000
MAX_ALERT_AGE_MS = DAY_MS  # an older one is listed, and no longer sent
logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Schedule:
    """When reports are sent, and where to; and what charts mark when the server starts."""

    daily_at: str | None = None
    weekly_on: str | None = None
    sends_alerts: bool = True
    channels: Sequence[Channel] = ()
    version: str = ""
    settings: str = ""  # the names of the settings that are not the default, and a digest of the values


@dataclass(slots=True)
class ScheduledReports:
    """Does the background work until it is cancelled."""

    rows: Rows
    redactor: Redactor
    schedule: Schedule
    tick_s: float = TICK_INTERVAL_S
    now_ms: Callable[[], int] = field(default=wall_ms)
    _pruned_ms: int = 0

    async def run(self) -> None:
        await self._mark("release", self.schedule.version)
        await self._mark("settings", self.schedule.settings)
        while True:
            try:
                await self.tick()
            except (HutchError, OSError) as error:
                logger.warning("reports.failed", problem=str(error))
            except Exception:  # a bug must not end the schedule
                logger.exception("reports.failed")
            await asyncio.sleep(self.tick_s)

    async def tick(self) -> None:
        """Raise alerts, and send what is due."""
        now_ms = self.now_ms()
        if now_ms - self._pruned_ms > PRUNE_INTERVAL_MS:
            self._pruned_ms = now_ms
            await Analytics(self.rows).prune(now_ms)
        await self._raise_alerts(now_ms)
        first_ms = await Analytics(self.rows).first_event_ms()
        for due in due_reports(self.schedule.daily_at, self.schedule.weekly_on, now_ms):
            if first_ms is None or due.to_ms <= first_ms:
                continue  # of a time before this installation was used
            await self._send(due.name, partial(self._digest, due))
        if self.schedule.sends_alerts and self.schedule.channels:
            for alert in await Alerts(self.rows).newest(since_ms=now_ms - MAX_ALERT_AGE_MS, limit=100):
                await self._send(f"alert-{alert.id}", partial(self._alert, alert))

    async def _raise_alerts(self, now_ms: int) -> None:
        analytics = Analytics(self.rows)
        until_ms = now_ms - now_ms % MINUTE_MS + MINUTE_MS
        window = Window(MINUTE_MS, until_ms - WINDOW_MS, until_ms)
        found = alerts_of(
            await analytics.counts(window, "model"),
            await analytics.counts(window, "repository"),
            await analytics.counts(window, "session", by_time=True),
            now_ms,
        )
        costs = run_cost_alerts(await analytics.costs_of_runs(window.from_ms))
        await Alerts(self.rows).add([*found, *costs], now_ms)

    async def _send(self, name: str, make: Callable[[], Awaitable[Message]]) -> None:
        deliveries = Deliveries(self.rows)
        for channel in self.schedule.channels:
            if not await deliveries.claim(name, channel.name, self.now_ms()):
                continue
            state, problem = "unknown", ""
            try:
                await asyncio.to_thread(channel.send, await make())
                state = "sent"
            except NotSent as error:
                state, problem = "failed", self.redactor.redact(str(error))
            except (OSError, EOFError) as error:  # it may have arrived
                problem = self.redactor.redact(str(error))
            if problem:
                logger.warning("report.not_sent", report=name, channel=channel.name, problem=problem)
            await deliveries.finish(name, channel.name, state, problem, self.now_ms())

    async def _alert(self, alert: Alert) -> Message:
        text = self.redactor.redact(alert.text)
        data = {"alert": {**asdict(alert), "text": text}}
        return Message(f"alert-{alert.id}", f"Hutch: {text}", f"{iso_time(alert.at_ms)}  {text}\n", data)

    async def _digest(self, due: DueReport) -> Message:
        parts = await digest_parts(self.rows, due)
        return digest_message(due, parts, self.redactor)

    async def _mark(self, kind: AnnotationKind, text: str) -> None:
        """Mark a release, or changed settings, unless the newest mark is the same."""
        newest = await Annotations(self.rows).newest(kind)
        if text and (newest is None or newest.text != text):
            await Annotations(self.rows).add(Annotation(new_annotation_id(), self.now_ms(), kind, text, ""))


def describe_settings(names: Collection[str], values: str) -> str:
    """The names of the settings that are set, and a digest that changes with the values. Shows no value."""
    listed = sorted(names)
    shown = ", ".join(listed[:8]) + (" and more" if listed[8:] else "")
    return f"Settings {hashlib.sha256(values.encode()).hexdigest()[:8]}: {shown or 'defaults'}"
