"""Runs a server from start to end: one process, one installation, one address.

At the start it reports its URL and, the first time, the owner's login link. When asked to
end, it refuses new requests, tells open streams, suspends work in progress, and closes
every jail. A second signal or a timeout ends it at once.
"""

import asyncio
import gc
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
import uvicorn

from hutch.domain.errors import BadRequest, DataGone, HutchError
from hutch.flows.user_accounts import Accounts, first_owner
from hutch.flows.user_running_hutch import system_user
from hutch.gateway import local_token as own_token
from hutch.gateway.app import make_app
from hutch.gateway.gateway_context import OpenServer, Server
from hutch.gateway.health_and_status import check_data
from hutch.gateway.request_head_limits import Protocol
from hutch.gateway.server_socket import exposure, listen, url_of
from hutch.gateway.stream import abortable_uvicorn_protocols
from hutch.gateway.stream.open_streams import streams_of
from hutch.jail.limits.limit_enforcement import preferring_self
from hutch.settings import LoadedSettings
from hutch.store.database_readiness import check_writable
from hutch.store.process_lock import hold_process_lock
from hutch.system.lazy_dataclass import dataclass
from hutch.system.queued_standard_output import drain_output
from hutch.system.server_announcement_and_discovery import (
    RunningServer,
    announced,
    local_token,
    withdraw,
)
from hutch.system.signals_that_stay_ignored import TERMINATION_SIGNALS, is_handled

MAX_FILES = 65_536  # descriptors; a session has a dozen, a follower one
NOTICE_S = 1.0  # to tell all open streams
FOLLOWERS_TIMEOUT_S = 5  # the maximum part of the shutdown time for clients that still read
GENERATIONS = 5000, 20, 10_000_000  # gc thresholds; the oldest generation is collected by `_collect` only
COLLECT_INTERVAL_S = 600
DATA_CHECK_INTERVAL_S = 1.0  # between two checks of the database file
DATA_GONE_TIMEOUT_S = 5.0  # for the shutdown of a server whose database is gone
SWITCH_S = 0.0005  # after which a busy thread yields to the event loop; the default is 5 ms

logger = structlog.get_logger("hutch.serve")


@dataclass(frozen=True, slots=True)
class Ready:
    """A server that answers."""

    running: RunningServer
    url: str  # for users
    owner: str = ""  # created on the first start
    link: str = ""  # logs the owner in, once
    warning: str = ""


async def serve(loaded: LoadedSettings, open_server: OpenServer, ready: Callable[[Ready], None]) -> None:
    """Serve what `open_server` opens until a signal ends it; `ready` is called once it accepts requests."""
    settings, paths = loaded.settings.server, loaded.paths
    certificate = _tls_files(loaded)
    alone = hold_process_lock(paths.server_lock, holder="Hutch server")
    with alone, listen(settings.host, settings.port) as listener, preferring_self():
        _allow_many_files()
        sys.setswitchinterval(SWITCH_S)
        url = url_of(listener, tls=bool(certificate))
        async with open_server(loaded) as server:
            accounts = Accounts(server.rows)
            made = await first_owner(server.rows, name=system_user())
            token = await own_token.create(accounts, local_token(paths.server_files))
            with announced(paths.server_files, url, certificate=certificate, token=token) as running:
                opened_at = (settings.public_url or url).rstrip("/")
                info = Ready(
                    running,
                    opened_at,
                    owner=system_user() if made else "",
                    link=made.url(opened_at) if made else "",
                    warning=exposure(settings),
                )
                service = _Service(server, loaded, lambda: ready(info))
                with _ended_by_signals(service, loaded):
                    async with own_token.renewing(accounts, paths):
                        await _serve_while_present(service, server, sockets=[listener])
                token = local_token(paths.server_files) or token
            await own_token.revoke(accounts, token)
    logger.info("server.ended")


class _Service(uvicorn.Server):
    """Uvicorn without signal handlers, and with a callback when it listens."""

    def __init__(self, server: Server, loaded: LoadedSettings, ready: Callable[[], None]) -> None:
        settings = loaded.settings.server
        self._server = server
        self._ready = ready
        self._app = make_app(server)
        super().__init__(
            uvicorn.Config(
                self._app,
                **{**abortable_uvicorn_protocols.options(), "http": Protocol},
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # the request filter knows the trusted proxies
                timeout_keep_alive=30,
                timeout_graceful_shutdown=min(FOLLOWERS_TIMEOUT_S, settings.shutdown_s),
                ssl_certfile=settings.tls_cert,
                ssl_keyfile=settings.tls_key,
            )
        )

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        gc.freeze()  # loaded modules are never garbage
        gc.set_threshold(*GENERATIONS)
        self._collect()
        logger.info("server.ready", pid=os.getpid())
        self._ready()

    def _collect(self) -> None:
        """Collect all garbage once per interval: with many sessions it takes a tenth of a second."""
        asyncio.get_running_loop().call_later(COLLECT_INTERVAL_S, self._collect)
        gc.collect()

    def end(self) -> None:
        """Refuse new requests. Open streams get a closing frame before uvicorn closes them."""
        self._server.closing = True
        for listening in self.servers:
            listening.close()
        streams = streams_of(self._app)
        asyncio.get_running_loop().call_later(NOTICE_S if len(streams) else 0, self._close)

    def _close(self) -> None:
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve_while_present(service: _Service, server: Server, sockets: list[socket.socket]) -> None:
    """Serve until asked to end, or until the database is gone."""
    watching = asyncio.ensure_future(_watch_data(service, server))
    try:
        await service.serve(sockets=sockets)
    finally:
        watching.cancel()
    if watching.done() and not watching.cancelled():
        raise watching.result()


async def _watch_data(service: _Service, server: Server) -> DataGone:
    """Check for the database periodically; end the server when it is gone."""
    while True:
        await asyncio.sleep(DATA_CHECK_INTERVAL_S)
        try:
            await check_data(server)
        except DataGone as gone:
            with suppress(HutchError):  # the writer refuses, and first saves what it can
                await check_writable(server.rows)
            logger.error("server.data_gone", problem=str(gone))
            # A thread: closing sessions may wait for files that are gone.
            timer = threading.Timer(DATA_GONE_TIMEOUT_S, _give_up, [str(gone)])
            timer.daemon = True
            timer.start()
            service.end()
            return gone


def _give_up(problem: str) -> None:
    sys.stderr.write(f"hutch: {problem}\n")
    sys.stderr.flush()
    drain_output()
    os._exit(DataGone.exit_code)  # jails die with us


@contextmanager
def _ended_by_signals(service: _Service, loaded: LoadedSettings) -> Iterator[None]:
    """The first signal starts the shutdown; a second one, or its timeout, ends the process at once."""
    received: list[int] = []
    timeout_s = loaded.settings.server.shutdown_s

    def cut_short(reason: str, code: int) -> None:
        logger.warning("server.cut_short", reason=reason)
        withdraw(loaded.paths.server_files)
        drain_output()
        os._exit(code)  # jails die with us; the next start resumes interrupted work

    def end(number: int) -> None:
        received.append(number)
        if len(received) > 1:
            cut_short("a second signal", 128 + number)
        logger.info("server.ending", signal=signal.Signals(number).name)
        # A thread: the loop itself may be what hangs.
        timer = threading.Timer(timeout_s, cut_short, [f"server.shutdown_s of {timeout_s} s passed", 1])
        timer.daemon = True
        timer.start()
        service.end()

    loop = asyncio.get_running_loop()
    for number in TERMINATION_SIGNALS:
        if is_handled(number):
            loop.add_signal_handler(number, end, number)
    yield  # handlers stay: they must also work while sessions are closed


def _tls_files(loaded: LoadedSettings) -> str:
    """The certificate, checked together with its key; empty without TLS."""
    settings = loaded.settings.server
    if not settings.tls_cert and not settings.tls_key:
        return ""
    if not settings.tls_cert or not settings.tls_key:
        raise BadRequest("server.tls_cert and server.tls_key go together. Set both, or neither.")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            settings.tls_cert, settings.tls_key
        )
    except (OSError, ssl.SSLError) as error:
        raise BadRequest(
            f"TLS cannot use {settings.tls_cert} with {settings.tls_key}: "
            f"{error.strerror or error}. Use a certificate and its own key, both as PEM."
        ) from None
    return str(Path(settings.tls_cert).absolute())


def _allow_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
