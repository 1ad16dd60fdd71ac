"""The output of `hutch run`: readable lines, or JSON."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hutch.cli.render.run_summary import RunSummary
from hutch.cli.render.terminal_line_layout import UNBOUNDED, TerminalLines, coloured, patch_lines, plain
from hutch.cli.render.transcript import Line, Rendered, Transcript
from hutch.system.terminal_safe_text import visible


class PlainView:
    """Prints finished lines to any output."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self._layout = TerminalLines(UNBOUNDED)  # not wrapped: the reader may have any width
        self._line = coloured if os.isatty(1) else plain
        self._progress = False

    def delta(self, delta: Mapping[str, Any]) -> None:
        if delta.get("kind") == "progress":
            if os.isatty(2):
                sys.stderr.write(f"\r\x1b[K{delta.get('text')}")
                sys.stderr.flush()
                self._progress = True
            return
        self.show(self.transcript.delta(delta))

    def entry(self, entry: Mapping[str, Any]) -> None:
        self.show(self.transcript.entry(entry))

    def end(self, story: RunSummary, patch: str, *, cut: bool, warnings: list[str]) -> None:
        self.show(patch_lines(patch))
        if cut:
            self.show([Line("(the rest of the patch is not shown)", "dim")])
        self.show(story.lines(patch))

    def warn(self, warning: str) -> None:
        self.show([Line(visible(warning), lead="warning: ")])

    def show(self, items: Sequence[Rendered]) -> None:
        lines = self._layout.put(items)
        if not lines:
            return
        if self._progress:
            sys.stderr.write("\r\x1b[K")
            self._progress = False
        sys.stdout.write("".join(f"{self._line(line)}\n" for line in lines))
        sys.stdout.flush()


class JsonView:
    """Prints one JSON object per line."""

    def __init__(self, story: RunSummary) -> None:
        self._story = story

    def delta(self, delta: Mapping[str, Any]) -> None:
        if delta.get("kind") in ("progress", "again"):  # messages are printed as whole events
            self._print("progress", text=delta.get("text"))

    def entry(self, entry: Mapping[str, Any]) -> None:
        event = entry["event"]
        if event.get("type") == "run.started":
            self._print(
                "begin",
                session=self._story.session_id,
                run=event.get("run_id"),
                workspace=event.get("workspace"),
                model=event.get("model"),
                reason=event.get("model_reason"),
                warnings=[],
            )
        self._print("event", event=event)

    def end(self, story: RunSummary, patch: str, *, cut: bool, warnings: list[str]) -> None:
        if patch:
            self._print("diff", patch=patch, cut=cut)
        self._print("end", **story.json(patch, warnings=warnings))

    def warn(self, warning: str) -> None:
        self._print("warning", text=warning)

    def interrupted(self, run_id: str) -> None:
        self._print("interrupted", session=self._story.session_id, run=run_id)

    def _print(self, kind: str, **fields: Any) -> None:
        sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
        sys.stdout.flush()
