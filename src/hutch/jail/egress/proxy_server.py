"""The proxy of one jail: its only connection to the network.

The warden makes a listening socket inside the jail's network namespace and passes it
out. This process serves it, so no relay runs in the jail and nothing there can bypass
the list.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog

from hutch.domain.errors import Unavailable
from hutch.jail.egress.allow_list import parse_allow_list
from hutch.jail.egress.back_pressure_streams import open_side
from hutch.jail.egress.blocked_addresses import parse_networks
from hutch.jail.egress.egress_attempt_and_limit_types import EgressLimits, Report
from hutch.jail.egress.host_check_and_connection import Admit, HostChecker, Resolve, resolver
from hutch.jail.egress.proxied_request_handler import Exchange
from hutch.jail.egress.proxy_connection_acceptor import Acceptor

_RESOLVER_THREADS = 4

logger = structlog.get_logger()


class Egress:
    """A running proxy."""

    def __init__(self, listener: socket.socket, checker: HostChecker, report: Report) -> None:
        self.port: int = listener.getsockname()[1]
        self._checker = checker
        self._report = report
        self._attempts = 0
        self._exchanges: set[asyncio.Task[None]] = set()
        self._closed = False
        self._acceptor = Acceptor(listener, checker.limits, self._start)

    @property
    def connections(self) -> int:
        """The number of connections being served."""
        return len(self._exchanges)

    def environment(self) -> dict[str, str]:
        return environment(self.port, refuses_all=not self._checker.allow.patterns)

    async def change(self, allow: Sequence[str]) -> None:
        """Allow these hosts from now on. If one is no longer allowed, all open connections are cut."""
        before, now = self._checker.allow, parse_allow_list(allow)
        self._checker = replace(self._checker, allow=now)
        if not all(now.covers(pattern) for pattern in before.patterns):
            cut = list(self._exchanges)
            for exchange in cut:
                exchange.cancel()
            await asyncio.gather(*cut, return_exceptions=True)

    async def close(self) -> None:
        """Stop immediately: no new connections, and open ones are cut."""
        self._closed = True
        await self._acceptor.close()
        for exchange in self._exchanges:
            exchange.cancel()
        await asyncio.gather(*self._exchanges, return_exceptions=True)

    def _start(self, connection: socket.socket) -> None:
        if self._closed:
            connection.close()
            return
        self._attempts += 1
        task = asyncio.create_task(self._serve(connection, self._attempts))
        self._exchanges.add(task)
        task.add_done_callback(lambda done: self._finished(done, connection))

    async def _serve(self, connection: socket.socket, number: int) -> None:
        client = await open_side(connection)
        try:
            await Exchange(client, self._checker, self._report, number).serve()
        except OSError:
            logger.debug("egress.client_left", number=number)
        finally:
            await client.close()

    def _finished(self, task: asyncio.Task[None], connection: socket.socket) -> None:
        connection.close()  # a task cancelled before its first step has not closed it
        self._exchanges.discard(task)
        self._acceptor.release()
        if not task.cancelled() and (error := task.exception()):
            logger.error("egress.exchange_failed", exc_info=error)


@asynccontextmanager
async def serve_egress(
    listener: socket.socket,
    allow: Sequence[str],
    report: Report,
    *,
    resolve: Resolve | None = None,
    also_allow_networks: Sequence[str] = (),
    limits: EgressLimits | None = None,
    admit: Admit | None = None,
) -> AsyncIterator[Egress]:
    """Serve a listening TCP socket, which is closed in the end, as a proxy to the allowed hosts.

    `report` is called in the event loop for every attempt, allowed or denied, and must not block.
    `also_allow_networks` is the operator's: private networks that allowed names may resolve to. `admit` is
    called for every attempt, and raises to refuse it.
    """
    with listener:
        _check_listener(listener)
        allow_list, networks = parse_allow_list(allow), parse_networks(also_allow_networks)
        threads = ThreadPoolExecutor(_RESOLVER_THREADS, thread_name_prefix="egress-resolve")
        resolve = resolve or resolver(threads)
        checker = HostChecker(allow_list, networks, resolve, limits or EgressLimits(), admit)
        egress = Egress(listener, checker, report)
        try:
            yield egress
        finally:
            await egress.close()
            threads.shutdown(wait=False, cancel_futures=True)


def environment(port: int, *, refuses_all: bool = False) -> dict[str, str]:
    """The variables that make pip, npm, yarn, git, apt, curl, cargo and Go use the proxy. `refuses_all` marks
    one that refuses everything, so that programs do not retry."""
    proxy = f"http://127.0.0.1:{port}"
    local = "localhost,127.0.0.1,::1"
    both_cases = {"http_proxy": proxy, "https_proxy": proxy, "all_proxy": proxy, "no_proxy": local}
    return {
        **both_cases,
        **{name.upper(): value for name, value in both_cases.items()},
        "npm_config_proxy": proxy,
        "npm_config_https_proxy": proxy,
        "npm_config_noproxy": local,
        "YARN_HTTP_PROXY": proxy,
        "YARN_HTTPS_PROXY": proxy,
        "NODE_USE_ENV_PROXY": "1",
        **(
            {"PIP_RETRIES": "0", "npm_config_fetch_retries": "0", "CARGO_NET_RETRY": "0"}
            if refuses_all
            else {}
        ),
    }


def _check_listener(listener: socket.socket) -> None:
    """Check that the warden, which is not trusted, passed out a listening socket."""
    try:
        fits = (
            listener.family in (socket.AF_INET, socket.AF_INET6)
            and listener.type == socket.SOCK_STREAM
            and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        )
    except OSError:
        fits = False
    if not fits:
        raise Unavailable(f"The jail returned {listener!r}, not a listening TCP socket. Reopen the jail.")
