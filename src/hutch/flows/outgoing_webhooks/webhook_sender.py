"""Sends queued webhooks, and repeats those that fail, with growing waits.

The queue is in the database, so a restarted server continues. A server that is killed between a delivery and
its note sends the same message again, under the same id.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field

import httpx2
import structlog

from hutch.domain.errors import HutchError
from hutch.domain.events import Event, UnknownEvent
from hutch.domain.ids import SessionId
from hutch.domain.outgoing_webhook import OF_LOGGED, MessageState, WebhookEndpoint, WebhookMessage
from hutch.flows.outgoing_webhooks.webhook_http_post import find_address, parse_target, send
from hutch.flows.outgoing_webhooks.webhook_signature import signed_headers
from hutch.jail.egress.blocked_addresses import Network
from hutch.store.outgoing_webhooks import OutgoingWebhooks
from hutch.store.table_access_interface import Rows
from hutch.store.webhook_secrets import WebhookSecrets
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

RETRY_AFTER_S = (5, 30, 120, 600, 1800, 7200, 21600, 43200)  # after each failed attempt; then it has failed
POLL_S = 5.0
AT_ONCE = 8
FORGET_INTERVAL_MS = 3_600_000
logger = structlog.get_logger()


@dataclass(slots=True)
class WebhookSender:
    """The sender of one server."""

    rows: Rows
    secrets: WebhookSecrets
    private: tuple[Network, ...] = ()
    retry_after_s: tuple[int, ...] = RETRY_AFTER_S
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    _forget_ms: int = 0

    @property
    def webhooks(self) -> OutgoingWebhooks:
        return OutgoingWebhooks(self.rows)

    def note(self, _session_id: SessionId, events: Sequence[Event | UnknownEvent]) -> None:
        """Send at once what these events have queued."""
        if any(event.type in OF_LOGGED for event in events):
            self.wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            self.wake.clear()
            try:
                await self._send_due()
            except HutchError as error:
                logger.warning("webhooks.not_sent", problem=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self.wake.wait()

    async def _send_due(self) -> None:
        now_ms = wall_ms()
        if now_ms >= self._forget_ms:
            self._forget_ms = now_ms + FORGET_INTERVAL_MS
            await self.webhooks.forget_old(now_ms)
        while found := await self.webhooks.due(wall_ms()):
            endpoints = {each.id: each for each in await self.webhooks.endpoints()}
            places = asyncio.Semaphore(AT_ONCE)
            async with asyncio.TaskGroup() as tasks:
                for message in found:
                    tasks.create_task(self._attempt(endpoints.get(message.endpoint_id), message, places))

    async def _attempt(
        self, endpoint: WebhookEndpoint | None, message: WebhookMessage, places: asyncio.Semaphore
    ) -> None:
        async with places:
            began_ms, status, error = wall_ms(), 0, ""
            if endpoint is None or endpoint.disabled:
                error = "the webhook is disabled"
            else:
                status, error = await self._send(endpoint, message)
            attempt: dict[str, object] = {
                "at_ms": began_ms,
                "status": status,
                "error": error,
                "duration_ms": wall_ms() - began_ms,
            }
            number = len(message.attempts)
            state: MessageState = "delivered" if not error else "waiting"
            if error and (number >= len(self.retry_after_s) or status == 410 or endpoint is None):
                state = "failed"
            wait_s = self.retry_after_s[number] if state == "waiting" else 0
            await self.webhooks.note_attempt(message, attempt, state, wall_ms() + wait_s * 1000)

    async def _send(self, endpoint: WebhookEndpoint, message: WebhookMessage) -> tuple[int, str]:
        """The status of the response, and why the attempt failed; empty if it did not."""
        now_s = int(time.time())
        current, old = await asyncio.to_thread(self.secrets.read, endpoint.id)
        signing = [current, old] if old and endpoint.old_secret_until_ms > now_s * 1000 else [current]
        body = message.body.encode()
        try:
            target = parse_target(endpoint.url)
            address = await find_address(target, self.private)
            status = await send(target, address, signed_headers(message.id, now_s, body, signing), body)
        except HutchError as error:
            return 0, str(error)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            return 0, f"no response: {type(error).__name__}"
        return status, "" if 200 <= status < 300 else f"the response has the status {status}"
