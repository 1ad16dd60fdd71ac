"""Shows an evaluation: its progress on standard error, then the table of results or the report."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from hutch.domain import events
from hutch.domain.dollar_amount_formatting import dollars
from hutch.domain.events import Event
from hutch.flows.evaluation.attempts_and_report import Attempt, Result, build_report, rates_by_model
from hutch.flows.evaluation.pass_rates import TaskAttempts, pass_rate, percent, rate_difference
from hutch.system.atomic_file import replace_file
from hutch.system.terminal_safe_text import one_line

STATUS_INTERVAL_S = 30.0  # between status lines where none can be overwritten
MAX_REASON_CHARS = 100


class Board:
    """Shows progress on standard error, then the table of results or the report."""

    def __init__(self, source: str, attempts: Sequence[Attempt], report: str | None) -> None:
        self.results: list[Result] = []
        self._source, self._attempts, self._report = source, attempts, report
        self._began = datetime.now(UTC)
        self._running: dict[str, tuple[float, str]] = {}  # start time and current step
        self._live = os.isatty(2)

    def begin(self, attempt: Attempt) -> None:
        name = attempt.label
        self._running[name] = (time.monotonic(), "preparing a workspace")
        if not self._live:
            self._say(f"{name}: started")
        self._status()

    def event(self, attempt: Attempt, event: Event) -> None:
        name = attempt.label
        since, _ = self._running[name]
        match event:
            case events.ModelReplied():
                self._running[name] = (since, f"turn {event.turn}")
            case events.ToolCalled():
                self._running[name] = (since, event.tool)
            case events.StepReached(message=message) if message.startswith("warning: "):
                self._say(f"{name}: {message}")
            case events.RunEnded():
                self._running[name] = (since, "hidden tests")
        self._status()

    def result(self, result: Result) -> None:
        name = result.attempt.label
        self._running.pop(name, None)
        self.results.append(result)
        word = "passed" if result.passed else f"failed: {_first_line(result.reason)}"
        self._say(f"{name}: {word} ({len(self.results)} of {len(self._attempts)})")
        if self._report != "-":
            self.write_report()
        self._status()

    async def watch(self) -> None:
        """Show the status at intervals, so that a long wait does not look like a hang."""
        while True:
            await asyncio.sleep(1 if self._live else STATUS_INTERVAL_S)
            if self._live:
                self._status()
            elif self._running:
                self._say(f"running: {self._running_tasks()}")

    def clear(self) -> None:
        """Remove the status line."""
        if self._live:
            sys.stderr.write("\r\x1b[K")

    def end(self, interrupted: bool) -> None:
        self.clear()
        if self._report == "-":
            typer.echo(json.dumps(self._full_report(), indent=2))
        else:
            self.write_report()
            typer.echo("\n".join(self._table()))
        if interrupted:
            remaining = len(self._attempts) - len(self.results)
            where = f"; the other results are in {self._report}" if self._report not in (None, "-") else ""
            self._say(f"Interrupted: {remaining} of {len(self._attempts)} tasks were not finished{where}.")

    def write_report(self) -> None:
        """Write the report so far, replacing an existing file atomically."""
        if self._report in (None, "-"):
            return
        replace_file(Path(str(self._report)), json.dumps(self._full_report(), indent=2) + "\n")

    def _full_report(self) -> dict[str, Any]:
        return build_report(self._source, self._began, self._attempts, self.results)

    def _table(self) -> list[str]:
        place = {attempt.key: number for number, attempt in enumerate(self._attempts)}
        results = sorted(self.results, key=lambda result: place[result.attempt.key])
        rows = [("task", "passed", "turns", "tokens", "cost", "time", "")]
        rows += [
            (
                each.attempt.label,
                "yes" if each.passed else "no",
                str(each.turns),
                f"{each.tokens:,}",
                _money(each.cost_usd),
                f"{each.duration_s:.1f} s",
                "" if each.passed else f"{each.outcome}: {_first_line(each.reason)}",
            )
            for each in results
        ]
        whole = self._full_report()
        took = (datetime.now(UTC) - self._began).total_seconds()
        passed = f"{whole['passed']}/{len(results)}"
        total = ("total", passed, str(whole["turns"]), f"{whole['tokens']:,}", _money(whole["cost_usd"]))
        rows.append((*total, f"{took:.1f} s", ""))
        widths = [max(len(row[at]) for row in rows) for at in range(6)]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0]), *(row[at].rjust(widths[at]) for at in range(1, 6)), row[6]]
            ).rstrip()
            for row in rows
        ]
        return [*lines, *self._rates()] if results else lines

    def _rates(self) -> list[str]:
        """The pass rates: of tasks that were tried several times, of each model, and their differences."""
        lines = []
        tasks: dict[tuple[str, str], list[bool]] = {}
        for result in self.results:
            attempt = result.attempt
            tasks.setdefault((attempt.case.name, attempt.model), []).append(result.passed)
        rates = rates_by_model(self._attempts, self.results)
        for (name, model), passed in tasks.items():
            if len(passed) > 1:
                rate = pass_rate([TaskAttempts(sum(passed), len(passed))])
                of_model = f" {model}" if len(rates) > 1 else ""
                lines.append(f"{name}{of_model}: {sum(passed)}/{len(passed)}, {percent(rate)}")
        first, *others = rates
        for model, rate in rates.items():
            lines.append(f"pass rate{f' of {model}' if others else ''}: {percent(rate)}")
        for model in others:
            difference = rate_difference(rates[model], rates[first])
            lines.append(f"difference of {model} to {first}: {percent(difference)}")
        return ["", *lines, "In brackets: from and to, with 95 % confidence."]

    def _running_tasks(self) -> str:
        now = time.monotonic()
        return ", ".join(
            f"{name} ({doing}, {now - since:.0f} s)" for name, (since, doing) in self._running.items()
        )

    def _status(self) -> None:
        if self._live:
            line = f"{len(self.results)}/{len(self._attempts)} {self._running_tasks()}"
            sys.stderr.write(f"\r\x1b[K{line[: (os.get_terminal_size(2).columns or 80) - 1]}")
            sys.stderr.flush()

    def _say(self, line: str) -> None:
        sys.stderr.write(f"\r\x1b[K{line}\n" if self._live else f"{line}\n")
        sys.stderr.flush()


def _money(cost_usd: float | None) -> str:
    return "unknown" if cost_usd is None else dollars(cost_usd)


def _first_line(text: str) -> str:
    return one_line((text.strip().splitlines() or [""])[0], MAX_REASON_CHARS)
