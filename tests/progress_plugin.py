"""A pytest plugin for `scripts/run_tests.py`: reports progress, and results that can be added up.

A plugin: `-p tests.progress_plugin --progress-to FD --results FILE`. On a terminal, one line is rewritten
in place; elsewhere a line is printed every half minute. A failure is printed with its reason when it
happens. The results are written at the end, so a run that was killed leaves none.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

EVERY_S = 30.0  # without a terminal
DURATIONS = "tests/durations"  # of earlier runs, in pytest's cache
MAX_REASON_LINES = 12
MAX_REASON_CHARS = 300
LEFT_OUT = ("soak", "control")  # not in any stage of `make test`


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("progress")
    group.addoption("--progress-to", type=int, default=2, help="descriptor to write progress to")
    group.addoption("--results", type=Path, help="file to write results to")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Worker(config))
    elif config.getoption("--results"):
        config.pluginmanager.register(Progress(config))


class Worker:
    """Reports the tests that must run one at a time to the process that started it."""

    def __init__(self, config: pytest.Config) -> None:
        self._serial: list[str] = []
        config.workeroutput["serial"] = self._serial  # type: ignore[attr-defined]

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._serial += serial(items)


def failure_lines(report: pytest.TestReport) -> list[str]:
    """The reason at once, since a run that is killed prints no tracebacks at its end."""
    lines = report.longreprtext.splitlines()
    reasons = [line for line in lines if line.startswith("E ")] or lines
    return [f"    {line[:MAX_REASON_CHARS]}" for line in reasons[:MAX_REASON_LINES]]


def serial(items: list[pytest.Item]) -> list[str]:
    return [
        item.nodeid
        for item in items
        if item.get_closest_marker("serial") and not any(map(item.get_closest_marker, LEFT_OUT))
    ]


class Progress:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._to: int = config.getoption("--progress-to")
        self._terminal = os.isatty(self._to)
        self._began = time.monotonic()
        self._earlier: dict[str, float] = (config.cache and config.cache.get(DURATIONS, {})) or {}
        self._usual_s = sum(self._earlier.values()) / len(self._earlier) if self._earlier else 1.0
        self._collected: set[str] = set()
        self._done: set[str] = set()
        self._tests: dict[str, dict[str, Any]] = {}
        self._serial: set[str] = set()
        self._printing = threading.Lock()
        self._over = threading.Event()
        self._ticking = threading.Thread(target=self._tick, daemon=True)

    # --- what is to come ---

    def pytest_sessionstart(self) -> None:
        self._ticking.start()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected.update(item.nodeid for item in session.items)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._serial.update(serial(items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._collected.update(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._serial.update(getattr(node, "workeroutput", {}).get("serial", ()))

    # --- what happens ---

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> Any:
        """Print no dots; the summary at the end stays the same."""
        if report.failed:
            category = "failed" if report.when in ("call", "???") else "error"
            return category, "", category.upper()
        if hasattr(report, "wasxfail") or (report.passed and report.when != "call"):
            return None
        return report.outcome, "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._tests.setdefault(report.nodeid, {"outcome": "passed", "s": 0.0, "why": ""})
        test["s"] += report.duration
        test["started"] = dict(report.user_properties).get("started", "")
        if report.when == "???":  # its worker crashed: nothing else is reported of it
            self._done.add(report.nodeid)
        if report.failed and test["outcome"] != "failed":
            test["outcome"] = "failed"
            self._print("\n".join([f"FAILED {report.nodeid}", *failure_lines(report)]))
        elif report.skipped and test["outcome"] == "passed":
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            expected = getattr(report, "wasxfail", None)
            why = reason.removeprefix("Skipped: ") if expected is None else f"expected to fail: {expected}"
            test |= {"outcome": "skipped", "why": why}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tests[report.nodeid] = {"outcome": "failed", "s": 0.0, "why": "", "started": ""}
            self._print(f"FAILED {report.nodeid} (while its tests were collected)")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._done.add(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self._over.set()
        self._ticking.join()
        if self._terminal:
            self._write("\r\x1b[K")
        if self._config.cache:
            took = {name: test["s"] for name, test in self._tests.items()}
            self._config.cache.set(DURATIONS, self._earlier | took)
        results = {"exit": int(exitstatus), "wanted": len(self._collected), "serial": sorted(self._serial)}
        part = self._config.getoption("--results").with_suffix(".part")
        part.write_text(json.dumps(results | {"tests": self._tests}))
        part.rename(self._config.getoption("--results"))

    # --- what is shown ---

    def _tick(self) -> None:
        while not self._over.wait(0.5 if self._terminal else EVERY_S):
            with self._printing:
                self._write(f"\r\x1b[K{self._line()}" if self._terminal else f"{self._line()}\n")

    def _print(self, line: str) -> None:
        with self._printing:
            self._write(f"\r\x1b[K{line}\n" if self._terminal else f"{line}\n")

    def _write(self, text: str) -> None:
        os.write(self._to, text.encode())

    def _line(self) -> str:
        """Weighted by how long each test took the last time, since a few take most of it."""
        spent_s = time.monotonic() - self._began
        wanted, done = set(self._collected), set(self._done)
        if not wanted:
            return f"collecting tests, {clock(spent_s)}"
        failed = sum(test["outcome"] == "failed" for test in list(self._tests.values()))
        line = f"{len(done)}/{len(wanted)} tests, {failed} failed, {clock(spent_s)}"
        if not done:
            return line
        weights = {name: self._earlier.get(name, self._usual_s) + 0.01 for name in wanted}
        share = sum(weights[name] for name in done & wanted) / sum(weights.values())
        return f"{line}, about {clock(spent_s * (1 - share) / share)} left" if share else line


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
