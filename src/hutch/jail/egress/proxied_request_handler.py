"""One connection from the jail: one request, checked, reported and served.

Only one: a second request on the same connection could be for another host. So every
answer says `Connection: close`, and later bytes are never read.
"""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime

import h11

from hutch.domain.errors import BadRequest, Denied, HutchError, LimitReached, Unavailable
from hutch.jail.egress.back_pressure_streams import Side, open_side, run_while_active
from hutch.jail.egress.egress_attempt_and_limit_types import EgressAttempt, Report
from hutch.jail.egress.host_check_and_connection import HostChecker, Route, connect
from hutch.jail.egress.plain_http_forward import run_forward
from hutch.jail.egress.proxy_target import Target, parse_target
from hutch.jail.egress.tunnel_relay import run_tunnel

_HEAD_CHUNK_BYTES = 8 * 1024


class Exchange:
    """Serves the one request of `client`."""

    def __init__(self, client: Side, checker: HostChecker, report: Report, number: int) -> None:
        self._client = client
        self._checker = checker
        self._limits = checker.limits
        self._report = report
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        self._attempt = EgressAttempt(number, datetime.now(UTC), "", "", 0, allowed=False, reason="")
        self._started = time.monotonic()
        self._in_tunnel = False

    async def serve(self) -> None:
        try:
            request = await self._head()
            if request is None:
                return
            self._set(method=request.method.decode("ascii")[:32])
            target = parse_target(request)
            self._set(host=target.host, port=target.port)
            route = await self._checker.check(target.host, target.port)
        except HutchError as error:
            self._update(allowed=False, reason=str(error), duration_s=self._age_s())
            await self._answer(error)
            return
        except asyncio.CancelledError:
            if self._attempt.method:
                self._update(allowed=False, reason="the jail was closed first", duration_s=self._age_s())
            raise
        self._update(allowed=True, reason=f"allowed by {route.pattern}")
        await self._connect_and_relay(request, target, route)

    async def _connect_and_relay(self, request: h11.Request, target: Target, route: Route) -> None:
        """Connect and relay; the attempt is reported again when that has ended, in whatever way."""
        upstream: Side | None = None
        try:
            connection, address = await connect(route, target.port, self._limits.connect_timeout_s)
            self._set(address=str(address))
            upstream = await open_side(connection)
            await self._relay(request, target, route, upstream)
        except Denied as error:
            self._set(allowed=False, reason=str(error))
            await self._client.finish()
        except HutchError as error:
            self._set(reason=f"{self._attempt.reason}; {error}")
            await self._answer(error)
        except (OSError, h11.ProtocolError) as error:
            self._set(reason=f"{self._attempt.reason}; broken off: {error}")
            self._client.reset()
        finally:
            if upstream:
                self._set(bytes_up=upstream.sent_bytes, bytes_down=upstream.received_bytes)
                await upstream.close()
            self._update(duration_s=self._age_s())

    async def _relay(self, request: h11.Request, target: Target, route: Route, upstream: Side) -> None:
        if request.method == b"CONNECT":
            self._in_tunnel = True
            await self._client.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._parser.next_event()  # the end of the request; later bytes belong to the tunnel
            first, _ = self._parser.trailing_data
            work = run_tunnel(
                self._client, upstream, target.host, first=first, tls_only=route.pattern.port is None
            )
        else:
            work = run_forward(self._client, upstream, self._parser, request, target, self._limits.head_bytes)
        await run_while_active(work, (self._client, upstream), self._limits.idle_timeout_s)
        await self._client.finish()

    async def _head(self) -> h11.Request | None:
        """The request, or None when the client disconnected without sending one."""
        try:
            async with asyncio.timeout(self._limits.head_timeout_s):
                while (event := self._parser.next_event()) is h11.NEED_DATA:
                    self._parser.receive_data(await self._client.read(_HEAD_CHUNK_BYTES))
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == 431:
                raise LimitReached(
                    f"Request head is over {self._limits.head_bytes} bytes. Send fewer or shorter headers.",
                    limit="head_bytes",
                ) from None
            raise BadRequest(f"Request is malformed: {error}. Use HTTP/1.1 with this proxy.") from None
        except TimeoutError:
            if not self._client.received_bytes:
                return None
            raise LimitReached(
                f"Request head did not arrive in {self._limits.head_timeout_s:g} s. Send it without delay.",
                limit="head_timeout_s",
            ) from None
        return event if isinstance(event, h11.Request) else None

    async def _answer(self, error: HutchError) -> None:
        """Send the error: in the body, and in the status line for clients that print only that."""
        if self._in_tunnel or self._parser.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self._client.reset()  # too late for an HTTP response
            return
        body = f"hutch: {error}\n".encode()
        phrase = str(error) if isinstance(error, Denied) else type(error).__name__  # Denied is plain ASCII
        head = (
            f"HTTP/1.1 {_status(error)} {phrase}\r\n"
            f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\n\r\n"
        )
        await self._client.write(head.encode("ascii") + body)
        await self._client.finish()

    def _set(self, **changes: object) -> None:
        self._attempt = replace(self._attempt, **changes)  # type: ignore[arg-type]

    def _update(self, **changes: object) -> None:
        self._set(**changes)
        self._report(self._attempt)

    def _age_s(self) -> float:
        return time.monotonic() - self._started


def _status(error: HutchError) -> int:
    match error:
        case Denied():
            return 403
        case LimitReached(limit="head_bytes"):
            return 431
        case LimitReached(limit="head_timeout_s"):
            return 408
        case LimitReached():
            return 504
        case Unavailable():
            return 502
        case _:
            return 400
