"""The results of helpers, as the agent that delegated reads them."""

from collections.abc import Sequence

from hutch.agent.tools.interface import ToolResult
from hutch.domain.errors import HutchError
from hutch.domain.events import Entry
from hutch.domain.helper_agent_events import HelperEnded, HelperStarted
from hutch.system.lazy_dataclass import dataclass

MAX_PATCH_CHARS = 18_000  # of all helpers of a call, for the model
MAX_FILES = 20  # named in a result


@dataclass(frozen=True, slots=True)
class EndedHelper:
    """A helper whose run has ended."""

    event: HelperEnded
    summary: str
    patch: str


def ended_in(entries: Sequence[Entry]) -> dict[str, HelperEnded]:
    """The ends of helpers in a log, by session."""
    return {each.event.helper: each.event for each in entries if isinstance(each.event, HelperEnded)}


def name_files(files: Sequence[str]) -> str:
    more = f" and {len(files) - MAX_FILES} more" if len(files) > MAX_FILES else ""
    return ", ".join(files[:MAX_FILES]) + more


def describe_results(
    started: Sequence[HelperStarted], results: Sequence[EndedHelper | HutchError]
) -> ToolResult:
    """The results of the helpers, for the model."""
    parts: list[str] = []
    per_patch = MAX_PATCH_CHARS // len(started)
    for start, result in zip(started, results, strict=True):
        if isinstance(result, HutchError):
            parts.append(f"{start.name} could not work: {result}")
            continue
        event = result.event
        lines = [f"{start.name}: {event.outcome}. {event.reason}".strip()]
        lines += [f"Summary: {result.summary}"] if result.summary else []
        lines += [f"Tests: {event.tests}"] if event.tests else []
        if not event.files:
            lines.append("It changed no file.")
        elif len(result.patch) <= per_patch:
            lines.append(f"Changed files: {event.files}\n{result.patch}")
        else:
            lines.append(
                f"Changed files: {event.files} (+{event.added} -{event.deleted}); see them with "
                f"helper_changes, action show. They begin:\n{result.patch[:per_patch]}"
            )
        parts.append("\n".join(lines))
    parts.append("Nothing of this is in your files yet: merge or drop the changes of each helper.")
    ok = any(isinstance(each, EndedHelper) for each in results)
    return ToolResult("\n\n".join(parts), ok=ok)
