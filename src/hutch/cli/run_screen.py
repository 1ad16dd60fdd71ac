"""What a person, or a program, sees of a run as it happens."""

import asyncio
import codecs
import json
import os
import sys
import termios
from collections.abc import Sequence
from typing import Any, Protocol

from rich.cells import chop_cells

from hutch.app import runs
from hutch.app.runs import events, llm
from hutch.app.workspaces import Progress
from hutch.cli.delivery_lines import NOTHING, delivery_lines
from hutch.cli.live import LAST_LINES, Live, Window
from hutch.cli.spoken import MAX_REASON_CHARS, answer_to
from hutch.cli.visible import visible
from hutch.domain.clean_stream import CleanStream
from hutch.domain.redaction import Redactor

SHOWN_LETTERS = 160  # of one line
TAB = "    "
FRAME_S = 0.02  # what comes within it is shown at once: nobody reads faster, and every letter costs a write
FLAGS = {"turns": "--max-turns", "tokens": "--max-tokens", "cost_usd": "--max-cost", "timeout_s": "--timeout"}


class Show(Protocol):
    """Somebody who is told what happens."""

    interactive: bool

    def progress(self, progress: Progress) -> None: ...
    def begin(self, opened: runs.Opened) -> None: ...
    def delta(self, delta: llm.Delta) -> None: ...
    def event(self, event: events.Event) -> None: ...
    def output(self, shell: str, stream: str, data: bytes) -> None: ...
    def patch(self, patch: bytes, cut: bool) -> None: ...
    def end(self, worked: runs.Worked, change: runs.Change | None, opened: runs.Opened) -> None: ...
    def interrupted(self, run_id: str) -> None: ...
    async def approve(self, asked: events.ApprovalAsked, covers: runs.ApprovalRules) -> runs.Answer: ...
    async def ask(self, question: str) -> str: ...


class Screen:
    """Lines for people, in colour on a terminal."""

    def __init__(self) -> None:
        self.interactive = os.isatty(0) and os.isatty(1)
        self._colour = os.isatty(1)
        self._clean: CleanStream | None = None
        self._live, self._window, self._redactor = Live(), Window(), Redactor(())
        self._printed: dict[str, tuple[codecs.IncrementalDecoder, CleanStream]] = {}  # by stream
        self._in_line = False  # something was written that is not ended by a newline
        self._progress = False
        self._spoken: list[str] = []  # by the model, and not shown yet
        self._showing: asyncio.TimerHandle | None = None
        self._said = ""  # what the model said last
        self._model, self._is_priced = "", True  # as far as is known

    def progress(self, progress: Progress) -> None:
        if os.isatty(2):
            of = f"/{progress.total:,}" if progress.total else ""
            sys.stderr.write(f"\r\x1b[K{progress.step} {progress.done:,}{of}")
            sys.stderr.flush()
            self._progress = True

    def begin(self, opened: runs.Opened) -> None:
        if self._progress:
            sys.stderr.write("\r\x1b[K")
        self._redactor = opened.bench.redactor
        self._clean = CleanStream(self._redactor)
        record = opened.workspace.record
        self._line(self._dim(f"session {opened.bench.session_id}, run {opened.run_id}"))
        self._line(self._dim(f"workspace {record.id} ({record.mode_reason})"))
        self._line(self._dim(f"model {opened.choice.name}: {opened.choice.reason}"))
        self._model, self._is_priced = opened.choice.name, not opened.warnings
        for warning in (*opened.warnings, *opened.untold()):
            self._line(f"warning: {visible(warning)}")

    def delta(self, delta: llm.Delta) -> None:
        match delta:
            case llm.Text():
                self._spoken.append(delta.text)
                if self._showing is None:
                    self._showing = asyncio.get_running_loop().call_later(FRAME_S, self._show_spoken)
            case llm.Again():
                self._show_spoken()
                self._line(self._dim(f"the model broke off ({delta.reason}); trying again"))

    def event(self, event: events.Event) -> None:
        match event:
            case events.ModelReplied():
                self._said = event.text
                self._show_spoken()
                if self._clean:
                    self._write(self._clean.end())
                self._end_line()
                if event.cost_usd is None and self._is_priced:
                    self._is_priced = False
                    self._line(self._dim(f"warning: {runs.unpriced(self._model)}"))
            case events.ToolCalled():
                self._live.begin()
                self._printed.clear()
                self._line(f"{self._bold(event.tool)} {_arguments(event.arguments)}")
            case events.ToolReturned():
                self._result(event)
            case events.RunEnded() if event.outcome != "done":
                self._line(self._bold(f"{event.outcome.replace('_', ' ')}: {event.reason}"))
            case events.ContextCompacted():
                self._line(self._dim("the conversation was made shorter"))

    def output(self, shell: str, stream: str, data: bytes) -> None:
        """What a command of the agent prints right now, without secrets."""
        if stream not in self._printed:
            utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
            self._printed[stream] = (utf8, CleanStream(self._redactor))
        decoder, clean = self._printed[stream]
        for line in self._live.add(stream, clean.add(decoder.decode(data))):
            self._line(self._dim(f"  {_cut(visible(line))}"))
        if self._colour and (rows := self._live.window()):
            self._draw(rows)

    def patch(self, patch: bytes, cut: bool) -> None:
        self._line("")
        for line in patch.decode(errors="replace").splitlines():
            colour = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}.get(line[:1], "")
            self._line(f"{colour}{visible(line)}\x1b[0m" if self._colour and colour else visible(line))
        if cut:
            self._line(self._dim("(the rest of the patch is not shown)"))

    def end(self, worked: runs.Worked, change: runs.Change | None, opened: runs.Opened) -> None:
        ended = worked.ended
        self._line("")
        if worked.summary and worked.summary.strip() != self._said.strip():
            self._line(visible(worked.summary.strip(), lines=True))
        tests = opened.bench.tests.reason if opened.bench.tests else ""
        if worked.tests and not tests:
            tests = worked.tests.text().splitlines()[0]
        if opened.tests_note:
            tests = f"{tests.rstrip('.')}. {opened.tests_note}"
        if tests:
            self._line(f"tests: {visible(tests)}")
        if not worked.changed:
            self._line(NOTHING)
        elif opened.lost:
            for name, text in delivery_lines(opened.run_id, {"outcome": "failed", "reason": opened.lost}):
                self._line(f"{name}: {visible(text, lines=True)}")
        elif not change:
            workspace = opened.workspace.record.id
            why = " since the tests fail" if ended.outcome == "tests_failing" else ""
            before = f" {visible(opened.held_back)}" if opened.held_back else ""
            self._line(f"No branch was made{why}.{before} What was done is in the workspace {workspace}:")
            self._line(f"look at it: hutch workspace diff {workspace} {worked.first.id} {worked.last.id}")
            if ended.outcome == "tests_failing" and opened.can_deliver:
                self._line(f"deliver it all the same: hutch changes propose {opened.run_id}")
        if change:
            self._line(self._bold(f"pull request {change.id}: {change.title}"))
            self._line(f"branch {visible(change.branch)} of {visible(change.repository)}")
            if change.web_url:
                self._line(visible(change.web_url))
            self._line(f"look at it: hutch changes diff {change.id}")
            force = " --force" if change.tests_fail else ""
            self._line(f"merge it:   hutch changes merge {change.id}{force}")
        for note in opened.untold():
            self._line(f"warning: {visible(note)}")
        if on := _way_on(worked, opened):
            self._line(visible(on))
        cost = "unpriced" if ended.cost_usd is None else f"${ended.cost_usd:.4f}"
        tokens = (
            f"{ended.input_tokens:,} tokens in ({ended.cached_tokens:,} cached), {ended.output_tokens:,} out"
        )
        self._line(self._dim(f"{ended.turns} turns, {tokens}, {cost}, {ended.duration_s:.1f} s"))

    def interrupted(self, run_id: str) -> None:
        self._show_spoken()
        self._end_line()
        how = f" Go on with: hutch resume {run_id}" if run_id else ""
        sys.stderr.write(f"hutch: stopped; nothing was delivered.{how}\n")

    async def approve(self, asked: events.ApprovalAsked, covers: runs.ApprovalRules) -> runs.Answer:
        covered = visible("; ".join(f"{rule.tool} {rule.pattern}".strip() for rule in covers))
        what, rule = f"{visible(asked.tool)}: {visible(asked.summary)}", visible(asked.rule)
        self._line(f"{self._bold('may it?')} {what}  ({rule})")
        wider = f", for this [s]ession, or [a]lways and in every repository: {covered}" if covers else ""
        if os.isatty(0):
            termios.tcflush(0, termios.TCIFLUSH)  # lines typed before the question do not answer it
        line = await _read_line(f"[y]es, [n]o{wider} > ")
        consent = answer_to(line)
        if consent is None or consent == "no":
            reason = "" if consent else line.strip()[:MAX_REASON_CHARS]
            return runs.Answer(allowed=False, reason=reason, by="terminal")
        return runs.Answer(allowed=True, scope=consent, by="terminal")

    async def ask(self, question: str) -> str:
        self._line(f"{self._bold('the agent asks:')} {visible(question, lines=True)}")
        return await _read_line("> ")

    def _result(self, event: events.ToolReturned) -> None:
        lines, more = self._live.rest(event.text)
        mark = "" if event.ok else "! "
        for line in map(visible, lines):
            self._line(self._dim(f"  {mark}{_cut(line)}"))
        if more:
            self._line(self._dim(f"  … {more} more lines"))

    def _draw(self, lines: Sequence[str]) -> None:
        """The last lines of a command, in their window."""
        size = os.get_terminal_size(1) if os.isatty(1) else os.terminal_size((80, 24))
        if size.lines > LAST_LINES + 2:
            self._end_line()
            rows = (f"  {visible(line)}".replace("\t", TAB) for line in lines)
            cut = [chop_cells(row, max(2, size.columns - 1))[0] for row in rows]
            sys.stdout.write(self._window.draw([self._dim(row) for row in cut]))
            sys.stdout.flush()

    def _show_spoken(self) -> None:
        if self._showing is not None:
            self._showing.cancel()
            self._showing = None
        spoken, self._spoken = "".join(self._spoken), []
        if self._clean:
            self._write(self._clean.add(spoken))

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(self._window.clear() + visible(text, lines=True))
            sys.stdout.flush()
            self._in_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._in_line:
            sys.stdout.write("\n")
            self._in_line = False

    def _line(self, text: str) -> None:
        self._end_line()
        sys.stdout.write(f"{self._window.clear()}{text}\n")
        sys.stdout.flush()

    def _bold(self, text: str) -> str:
        text = visible(text)
        return f"\x1b[1m{text}\x1b[0m" if self._colour else text

    def _dim(self, text: str) -> str:
        text = visible(text)
        return f"\x1b[2m{text}\x1b[0m" if self._colour else text


class JsonLines:
    """One JSON object a line, for programs."""

    interactive = False

    def progress(self, progress: Progress) -> None:
        self._print("progress", step=progress.step, done=progress.done, total=progress.total)

    def begin(self, opened: runs.Opened) -> None:
        self._print(
            "begin",
            session=opened.bench.session_id,
            run=opened.run_id,
            workspace=opened.workspace.record.id,
            model=opened.choice.name,
            reason=opened.choice.reason,
            warnings=[*opened.warnings, *opened.untold()],
        )

    def delta(self, delta: llm.Delta) -> None:
        """Whole messages come as events."""

    def event(self, event: events.Event) -> None:
        self._print("event", event=json.loads(events.to_json(event)))

    def output(self, shell: str, stream: str, data: bytes) -> None:
        """All of it comes with the result."""

    def patch(self, patch: bytes, cut: bool) -> None:
        self._print("diff", patch=patch.decode(errors="replace"), cut=cut)

    def end(self, worked: runs.Worked, change: runs.Change | None, opened: runs.Opened) -> None:
        self._print(
            "end",
            outcome=worked.ended.outcome,
            reason=worked.ended.reason,
            title=worked.title,
            summary=worked.summary,
            changed=worked.changed,
            tests=json.loads(opened.bench.redactor.clean(json.dumps(worked.tests.data())))
            if worked.tests
            else None,
            change=change
            and {"id": change.id, "branch": change.branch, "commit": change.commit, "url": change.url},
            not_delivered=opened.lost or opened.held_back or None,
            cost_usd=worked.ended.cost_usd,
            turns=worked.ended.turns,
            go_on=_way_on(worked, opened) or None,
            warnings=opened.untold(),
        )

    def interrupted(self, run_id: str) -> None:
        self._print("interrupted", run=run_id)

    async def approve(self, asked: events.ApprovalAsked, covers: runs.ApprovalRules) -> runs.Answer:
        return runs.Answer(allowed=False)

    async def ask(self, question: str) -> str:
        return ""

    def _print(self, kind: str, **fields: Any) -> None:
        sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
        sys.stdout.flush()


async def _read_line(prompt: str) -> str:
    """A line that a person types. No thread waits for it: one could not be stopped by Ctrl-C."""
    sys.stdout.write(prompt)
    sys.stdout.flush()
    loop = asyncio.get_running_loop()
    typed = bytearray()
    done: asyncio.Future[None] = loop.create_future()

    def read() -> None:
        data = os.read(0, 4096)
        typed.extend(data)
        if not done.done() and (not data or data.endswith(b"\n")):
            done.set_result(None)

    loop.add_reader(0, read)
    try:
        await done
    finally:
        loop.remove_reader(0)
    return typed.decode(errors="replace").rstrip("\n")


def _way_on(worked: runs.Worked, opened: runs.Opened) -> str:
    """How a run that is not over can go on; empty when it is."""
    if worked.ended.outcome in runs.FINAL:
        return ""
    command, limits, persona = f"hutch resume {opened.run_id}", opened.bench.limits, opened.bench.persona
    name = limits.reached(worked.ended) if worked.ended.outcome == "limit_reached" else None
    if name is None:
        return f"Go on with: {command}"
    more = 2 * getattr(limits, name)
    if getattr(persona.repository_limits, name) == getattr(limits, name):
        return f"The repository's own persona '{persona.name}' allows no more."
    if getattr(persona.limits, name) == getattr(limits, name):
        return f"Raise limits.{name} of the persona '{persona.name}', and go on with: {command}"
    return f"Go on with: {command} {FLAGS[name]} {more if isinstance(more, int) else format(more, 'g')}"


def _cut(line: str) -> str:
    return line if len(line) <= SHOWN_LETTERS else f"{line[:SHOWN_LETTERS]}…"


def _arguments(text: str) -> str:
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError):
        given = text
    if isinstance(given, dict):
        text = "  ".join(
            f"{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in given.items()
        )
    return _cut(visible(text.replace("\n", " ⏎ ")))
