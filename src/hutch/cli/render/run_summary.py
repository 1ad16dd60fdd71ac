"""Collects a run's events into the summary shown at its end. Does no input or output."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from hutch.cli.render.delivery_result import NOTHING, delivery_lines, next_steps, page_of
from hutch.cli.render.test_results import counts_of, missing_of
from hutch.cli.render.transcript import Line
from hutch.domain.change_title import first_line
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import visible

FLAGS = {"turns": "--max-turns", "tokens": "--max-tokens", "cost_usd": "--max-cost", "timeout_s": "--timeout"}
FINAL = ("done", "tests_failing")
ENVELOPE = ("type", "v", "run_id")  # fields of a test event that are not test results
COUNTED = ("turns", "input_tokens", "cached_tokens", "output_tokens")
SUMMED_UP = frozenset({"run.ended", "change.proposed", "delivery.ended"})  # events that the summary covers


@dataclass(slots=True)
class RunSummary:
    """One run of a session, built from its events."""

    session_id: str
    repository: str
    run_id: str = ""
    workspace: str = ""
    started: Mapping[str, Any] = field(default_factory=dict)
    ended: Mapping[str, Any] = field(default_factory=dict)
    tests: Mapping[str, Any] | None = None
    change: Mapping[str, Any] | None = None
    delivery: Mapping[str, Any] | None = None
    first: int = 0  # the snapshot before the run
    last: int = 0
    title: str = ""
    summary: str = ""
    last_reply: str = ""
    helpers: list[Mapping[str, Any]] = field(default_factory=list)  # how they ended
    is_plain_directory: bool = False  # the repository is a directory without git
    has_starter_files: bool = False  # there is no repository

    def take(self, event: Mapping[str, Any]) -> None:
        """Process the next event."""
        match event.get("type"):
            case "session.prepared":
                self.workspace = str(event.get("workspace"))
                self.is_plain_directory = bool(event.get("source")) and not event.get("commit")
                self.has_starter_files = bool(event.get("starter_files"))
            case "snapshot.taken":
                self.last = int(event.get("snapshot") or 0)
                self.first = self.first if self.started else self.last
            case "run.started":
                self.started, self.workspace = event, str(event.get("workspace") or self.workspace)
                self.run_id = str(event.get("run_id"))
                self.title = first_line(str(event.get("prompt")))
                self.first = self.last
            case "model.replied":
                self.last_reply = self.summary = str(event.get("text") or "")
            case "tool.called" if event.get("tool") == "finish":
                arguments = _arguments(str(event.get("arguments")))
                self.title, self.summary = arguments.get("title") or self.title, arguments.get("summary", "")
            case "tests.run" if not self.run_id or event.get("run_id") == self.run_id:
                self.tests = event
            case "helper.ended":
                self.helpers.append(event)
            case "change.proposed":
                self.change = event
            case "delivery.ended":
                self.delivery = event
            case "run.ended":
                self.ended = event

    @property
    def outcome(self) -> str:
        return str(self.ended.get("outcome") or "")

    @property
    def _reason(self) -> str:
        return str(self.ended.get("reason") or "")

    @property
    def is_complete(self) -> bool:
        """True if the session can end: the run is done, and no work is left to deliver."""
        is_delivered = (self.delivery or {}).get("outcome") != "failed"
        return self.outcome in FINAL and is_delivered and not self.is_undelivered

    @property
    def is_undelivered(self) -> bool:
        """True when a run without delivery changed files, which can be delivered later."""
        is_without = self.started.get("deliver") is False and self.change is None
        return is_without and self.first != self.last

    @property
    def resume_hint(self) -> str:
        """How to continue a run that is not done; empty when it is done."""
        if self.outcome in FINAL or not self.run_id:
            return ""
        command, limit = f"hutch resume {self.run_id}", str(self.ended.get("limit") or "")
        if not limit:
            return f"Resume with: {command}"
        persona = self.started.get("persona")
        if self.ended.get("limit_set_by") == "repository":
            return f"The repository's own persona '{persona}' allows no more."
        if self.ended.get("limit_set_by") == "persona":
            return f"Raise limits.{limit} of the persona '{persona}', then resume with: {command}"
        return f"Resume with: {command} {FLAGS[limit]} {self._twice(limit)}"

    def _twice(self, limit: str) -> str:
        tokens = int(self.ended.get("input_tokens") or 0) + int(self.ended.get("output_tokens") or 0)
        value = self.started.get("timeout_s" if limit == "timeout_s" else f"max_{limit}")
        spent = {"turns": self.ended.get("turns"), "tokens": tokens}.get(limit)
        return format(2 * (value or spent or self.ended.get("duration_s") or 1), "g")

    def lines(self, patch: str) -> list[Line]:
        """The summary as readable lines."""
        lines = [Line("")]
        if self.outcome != "done":
            lines.append(
                Line(visible(self._reason, lines=True), "bad", f"{self.outcome.replace('_', ' ')}: ")
            )
        if self.summary.strip() and self.summary.strip() != self.last_reply.strip():
            lines.append(Line(visible(self.summary.strip(), lines=True)))
        if self.tests and self._tests_line() != self._reason:  # which is shown above
            lines.append(Line(visible(self._tests_line()), lead="tests: "))
        lines += self._delivery_lines(bool(patch))
        if self.resume_hint:
            lines.append(Line(visible(self.resume_hint)))
        return [*lines, *self._cost_lines()]

    def _tests_line(self) -> str:
        tests = self.tests or {}
        if tests.get("reason") and not tests.get("ok"):
            return str(tests["reason"])
        line = counts_of(tests)
        line += f"{missing}. {tests.get('reason')}" if (missing := missing_of(tests)) else ""
        note = (self.delivery or {}).get("reason") if self.change else ""
        return f"{line}. {note}" if note else line

    def _delivery_lines(self, changed: bool) -> list[Line]:
        change, delivery = self.change, self.delivery or {}
        if change:
            page = page_of(change)
            steps = next_steps(change, force=self.outcome == "tests_failing")
            return [
                Line(visible(str(change["title"])), "strong", f"pull request {change['change_id']}: "),
                Line(visible(f"branch {change['branch']} of {self.repository}")),
                *([Line(visible(page), "strong")] if page else []),
                *(Line(visible(command), lead=f"{name}: ".ljust(11)) for name, command in steps),
            ]
        if not changed:
            return [Line(NOTHING)]
        if delivery.get("outcome") == "failed" and not delivery.get("failing"):
            rows = delivery_lines(self.run_id, delivery)
            return [Line(visible(text, lines=True), lead=f"{name}: ") for name, text in rows]
        why = " because the tests fail" if self.outcome == "tests_failing" and not self.is_undelivered else ""
        before = str(delivery["reason"]).removeprefix(self._reason).strip() if delivery.get("failing") else ""
        first = f"No branch was created{why}."
        first = "There is no repository to deliver to." if self.has_starter_files else first
        parts = (first, before, f"The work is in the workspace {self.workspace}:")
        note = " ".join(filter(None, parts))
        review = Line(f"hutch workspace diff {self.workspace} {self.first} {self.last}", lead="review it: ")
        again = [Line(f"hutch changes propose {self.run_id}", lead="deliver anyway: ")]
        if self.has_starter_files:
            later = []
        elif self.is_undelivered and self.outcome in FINAL:
            later = [Line(f"hutch changes deliver {self.run_id}", lead="deliver it: ")]
        else:
            later = again if delivery.get("failing") else []
        return [Line(visible(note)), review, *self._apply_lines(), *later]

    def _apply_lines(self) -> list[Line]:
        """How to apply the work to a directory without git, which has no branches."""
        patch = f"hutch workspace diff {self.workspace} {self.first} {self.last}"
        if self.has_starter_files:
            return [Line(f"{patch} | git apply", lead="apply it, in the directory of your files: ")]
        if not self.is_plain_directory:
            return []
        return [Line(visible(f"{patch} | git -C {shlex.quote(self.repository)} apply"), lead="apply it: ")]

    def _cost_lines(self) -> list[Line]:
        """The usage of the run, and that of its helpers."""
        took = f", {self.ended.get('duration_s') or 0:.1f} s"
        lines = [Line(f"{_usage_text(self.ended)}{took}", "dim")]
        if total := self._usage_of_helpers():
            count = len(self.helpers)
            lines.append(Line(_usage_text(total), "dim", f"{count} helper{'' if count == 1 else 's'}: "))
        return lines

    def _usage_of_helpers(self) -> dict[str, Any]:
        """The sums over all helpers; the cost is None if one is unknown. Empty without helpers."""
        if not self.helpers:
            return {}
        costs = [each.get("cost_usd") for each in self.helpers]
        known = [each for each in costs if each is not None]
        total = {name: sum(each.get(name) or 0 for each in self.helpers) for name in COUNTED}
        return {**total, "cost_usd": sum(known) if len(known) == len(costs) else None}

    def json(self, patch: str, *, warnings: list[str]) -> dict[str, Any]:
        """The summary as JSON."""
        delivery, change = self.delivery or {}, self.change
        failed = delivery.get("outcome") == "failed"
        tests = {name: value for name, value in (self.tests or {}).items() if name not in ENVELOPE}
        return {
            "session": self.session_id,
            "run": self.run_id or None,
            "outcome": self.outcome,
            "reason": self.ended.get("reason"),
            "title": self.title,
            "summary": self.summary,
            "changed": bool(patch),
            "tests": tests or None,
            "change": change
            and {
                "id": change["change_id"],
                "branch": change["branch"],
                "commit": change["commit"],
                "url": change["url"],
            },
            "not_delivered": (delivery.get("reason") if failed else None) or None,
            "cost_usd": self.ended.get("cost_usd"),
            "turns": self.ended.get("turns"),
            "helpers": {"count": len(self.helpers), **self._usage_of_helpers()},
            "resume_hint": self.resume_hint or None,
            "warnings": warnings,
        }


def _usage_text(used: Mapping[str, Any]) -> str:
    cost, turns = used.get("cost_usd"), used.get("turns") or 0
    price = "unpriced" if cost is None else f"${cost:.4f}"
    tokens = f"{used.get('input_tokens') or 0:,} tokens in ({used.get('cached_tokens') or 0:,} cached)"
    return (
        f"{turns} turn{'' if turns == 1 else 's'}, {tokens}, {used.get('output_tokens') or 0:,} out, {price}"
    )


def _arguments(text: str) -> dict[str, str]:
    try:
        parsed = json.loads(text)
        return {str(name): str(value) for name, value in parsed.items()}
    except (ValueError, AttributeError, RecursionError):
        return {}
