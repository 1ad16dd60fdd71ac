"""The helpers and tries of a session as the plan that an editor shows."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from acp import helpers, schema

from hutch.cli.render.helper_agent_event_lines import helper_note, tries_lines
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import one_line

MAX_ENTRY_CHARS = 200
EVENTS = frozenset({"helper.started", "helper.ended", "helper.changes_taken", "tries.judged"})


@dataclass(slots=True)
class HelperPlan:
    """One entry for each helper: its task, then how it ended and what became of its changes."""

    _entries: dict[str, schema.PlanEntry] = field(default_factory=dict)  # by the helper's session

    def update(self, kind: str, event: Mapping[str, Any]) -> Iterator[Any]:
        if kind == "tries.judged":
            table = "\n".join(tries_lines(event))
            yield helpers.update_agent_message_text(f"\n\n```text\n{table}\n```\n")
            return
        text = one_line(helper_note(kind, event), MAX_ENTRY_CHARS)
        known = self._entries.get(str(event.get("helper")))
        if kind == "helper.changes_taken" and known is not None:
            text = one_line(f"{known.content}; {event.get('action')}", MAX_ENTRY_CHARS)
        status: Any = "in_progress" if kind == "helper.started" else "completed"
        self._entries[str(event.get("helper"))] = helpers.plan_entry(text, status=status)
        yield helpers.update_plan(self._entries.values())
