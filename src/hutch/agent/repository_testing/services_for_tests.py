"""Services that tests need, such as a database: started in the session's jail before tests run.

A service is a command of the repository's settings. It runs in the same jail as the tests, so
it can reach and harm nothing else. It is started once for a jail, awaited by its port or
a probe for a bounded time, and started again if it has ended or the jail is a new one. Its output
is in a file of the jail, where the agent and users can read it; its end is kept in an event when the jail
is closed.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from hutch.agent.text_for_model import strip_escapes
from hutch.domain.dependency_plan import Service
from hutch.domain.errors import HutchError, Unavailable
from hutch.domain.events import Event, ServiceAnswered, ServiceFailed, ServiceStarted, ServiceStopped
from hutch.jail.interface import Exit, Jail, Process
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import printable

LOGS = "/tmp/hutch-services"
MAX_LOG_BYTES = 8 * 1024 * 1024
START_TIMEOUT_S = 60.0
PROBE_TIMEOUT_S = 5.0
FIRST_PAUSE_S, MAX_PAUSE_S = 0.02, 0.5
SHOWN_BYTES = 2000
RECORDED_LOG_BYTES = 32 * 1024
LOG_PAUSES, LOG_TIMEOUT_S = 50, 5.0
# `cat` writes what it reads at once, and ends at the limit: more is dropped, so that a log cannot fill /tmp.
START = (
    f'mkdir -p {LOGS} && exec /bin/sh -c "$1" '
    f'> >(ulimit -f {MAX_LOG_BYTES // 1024}; cat > {LOGS}/"$0".log; exec cat > /dev/null) 2>&1'
)
Report = Callable[[Event], None]


@dataclass(slots=True)
class _Running:
    """A service that was started."""

    process: Process
    waiting: asyncio.Task[Exit]

    @property
    def exit(self) -> Exit | None:
        return self.waiting.result() if self.waiting.done() and not self.waiting.cancelled() else None


class TestServices:
    """The services of one sandbox."""

    __test__ = False  # no class of tests

    def __init__(self, services: Sequence[Service], report: Report | None = None) -> None:
        self._services = tuple(services)
        self._report = report or (lambda event: None)
        self._jail: Jail | None = None
        self._running: dict[str, _Running] = {}
        self._found: set[str] = set()  # services that were ready without being started here
        self._lock = asyncio.Lock()

    async def ensure(
        self,
        jail: Jail,
        *,
        timeout_s: float = START_TIMEOUT_S,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Return as soon as all services are ready; raises with the end of the log if one is not."""
        if not self._services:
            return
        async with self._lock:
            if self._jail is not jail:
                self._jail, self._running, self._found = jail, {}, set()
            for service in self._services:
                await self._ensure(jail, service, timeout_s, is_stopped)

    async def keep_logs(self) -> None:
        """Report the end of each service's log, before the jail is closed."""
        jail, names = self._jail, list(self._running)
        if jail is None:
            return
        logs = await asyncio.gather(*(self._read_log(jail, name, RECORDED_LOG_BYTES) for name in names))
        for name, output in zip(names, logs, strict=True):
            self._report(ServiceStopped(service=name, output=output))
        self._jail, self._running = None, {}

    async def _read_log(self, jail: Jail, name: str, max_bytes: int) -> str:
        try:
            tail = ["tail", "-c", str(max_bytes), f"{LOGS}/{name}.log"]
            read = await jail.run(tail, timeout_s=LOG_TIMEOUT_S)
        except HutchError as error:
            return f"The log could not be read: {error}"
        return strip_escapes(read.stdout[-max_bytes:].decode(errors="replace")).strip()

    async def _ensure(
        self, jail: Jail, service: Service, timeout_s: float, is_stopped: Callable[[], bool]
    ) -> None:
        running = self._running.get(service.name)
        is_up = running is not None and (running.exit is None or running.exit.code == 0)
        if await self._is_ready(jail, service) and (is_up or service.port or service.probe):
            if running is None and service.name not in self._found:  # the agent or a user has started it
                self._found.add(service.name)
                self._report(ServiceAnswered(service=service.name, found=True))
            return
        if running is None or running.exit is not None:
            process = await jail.spawn(["/bin/bash", "-c", START, service.name, service.command])
            self._running[service.name] = _Running(process, asyncio.ensure_future(process.wait()))
            self._report(
                ServiceStarted(service=service.name, command=service.command, port=service.port or 0)
            )
        await self._wait(jail, service, timeout_s, is_stopped)

    async def _wait(
        self, jail: Jail, service: Service, timeout_s: float, is_stopped: Callable[[], bool]
    ) -> None:
        began, pause_s = time.monotonic(), FIRST_PAUSE_S
        while not await self._is_ready(jail, service):
            exited = self._running[service.name].exit
            took_s = time.monotonic() - began
            if is_stopped():
                return
            if exited is not None and exited.code != 0:
                how = f"exit code {exited.code}" if exited.signal is None else f"signal {exited.signal}"
                await self._fail(jail, service, f"it ended with {how}")
            if took_s > timeout_s:
                closed = f"port {service.port} is closed"
                fault = f"'{service.probe}' fails" if service.probe else closed
                await self._fail(jail, service, f"after {timeout_s:g} s, {fault}")
            await asyncio.wait([self._running[service.name].waiting], timeout=pause_s)
            pause_s = min(pause_s * 1.5, MAX_PAUSE_S)
            if exited is not None:
                await asyncio.sleep(pause_s)  # it went to the background
        self._report(ServiceAnswered(service=service.name, duration_s=round(time.monotonic() - began, 3)))

    async def _is_ready(self, jail: Jail, service: Service) -> bool:
        if service.probe:
            try:
                probe = await jail.run(["/bin/sh", "-c", service.probe], timeout_s=PROBE_TIMEOUT_S)
            except HutchError:
                return False
            return probe.exit_code == 0
        if service.port is None:
            running = self._running.get(service.name)
            return running is not None and (running.exit is None or running.exit.code == 0)
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                connection = await jail.connect(service.port)
        except (HutchError, OSError):  # a timeout is one, too
            return False
        connection.close()
        return True

    async def _fail(self, jail: Jail, service: Service, reason: str) -> None:
        running = self._running.pop(service.name)
        for _ in range(LOG_PAUSES):
            if running.exit is None or not running.process.has_jobs:
                break
            await asyncio.sleep(FIRST_PAUSE_S)  # its last output is being written
        await running.process.kill()
        output = await self._read_log(jail, service.name, SHOWN_BYTES)
        self._report(ServiceFailed(service=service.name, reason=reason, output=output))
        shown = "\n".join(printable(line) for line in output.splitlines()[-10:]) or "(it printed nothing)"
        raise Unavailable(
            f"The service {service.name}, which the tests need, is not ready: {reason}. Its last output:\n"
            f"{shown}\nAll of it is in {LOGS}/{service.name}.log. Correct environment.services."
        )
