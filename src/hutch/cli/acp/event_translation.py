"""Translates the events of a session, and the parts of replies, to the updates of ACP.

Pure: the content of changed files is given with the event.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from acp import helpers, schema

from hutch.cli.acp.helper_plan import EVENTS as HELPER_EVENTS
from hutch.cli.acp.helper_plan import HelperPlan
from hutch.cli.render.test_results import result_lines, summary_line
from hutch.domain.current_actor_and_author import AGENT
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import one_line

MAX_TITLE_CHARS = 120
MAX_OUTPUT_CHARS = 8_000  # of a command that an update shows: each replaces the one before
KINDS: Mapping[str, Any] = {
    "read_file": "read",
    "write_file": "edit",
    "edit_file": "edit",
    "apply_patch": "edit",
    "list_directory": "search",
    "glob": "search",
    "grep": "search",
    "bash": "execute",
    "bash_output": "execute",
    "bash_kill": "execute",
    "exec": "execute",
    "run_tests": "execute",
    "terminal_read": "execute",
    "terminal_type": "execute",
    "update_task": "think",
}
IN_TERMINAL = frozenset({"bash"})
HIDDEN = frozenset({"ask_user", "finish"})  # their content has events of its own, or is the reply
Event = Mapping[str, Any]
Update = Any  # one of the library's many update models


@dataclass(frozen=True, slots=True)
class ChangedText:
    """A changed file's text before and after; None if it did not exist."""

    path: str  # on the editor's side
    before: str | None
    after: str


@dataclass(slots=True)
class EventTranslation:
    """The state of one session, as far as its editor has seen it."""

    directory: str  # where the editor has the files
    replays: bool = False  # earlier prompts are shown too
    shows_terminals: bool = False  # the output of commands is shown in terminals, without taking part in them
    plan: HelperPlan = field(default_factory=HelperPlan)
    _turn: tuple[str, int] | None = None
    _shown: str = ""  # of the current reply
    _printed: dict[str, str] = field(default_factory=dict)  # by call
    _changed: dict[str, list[ChangedText]] = field(default_factory=dict)  # by call
    _running: str = ""  # the call that runs now
    _exit_code: int | None = None  # of the last command

    def delta(self, delta: Mapping[str, Any]) -> Iterator[Update]:
        turn = (str(delta.get("run_id")), int(delta.get("turn") or 0))
        kind, text = delta.get("kind"), str(delta.get("text") or "")
        if kind == "tests":
            return
        if turn != self._turn:
            self._turn, self._shown = turn, ""
        match kind:
            case "thinking" if text:
                yield helpers.update_agent_thought_text(text)
            case "text" if text:
                self._shown += text
                yield helpers.update_agent_message_text(text)
            case "again":
                was_shown, self._shown = bool(self._shown), ""
                again = " The reply starts again.\n\n" if was_shown else ""
                yield helpers.update_agent_thought_text(f"{text}{again}\n")
            case "resumed":
                self._shown = ""
            case "progress":
                yield helpers.update_agent_thought_text(f"{text}\n")

    def event(self, event: Event, changed: ChangedText | None = None) -> Iterator[Update]:
        """The updates of an event; `changed` is the content of a `file.changed`."""
        if event.get("withheld") or event.get("erased"):
            return
        kind = str(event.get("type"))
        match kind:
            case "run.queued" if self.replays:
                yield helpers.update_user_message_text(str(event.get("prompt")))
            case "message.sent" if self.replays and event.get("author") == "user":
                yield helpers.update_user_message_text(str(event.get("text")))
            case "model.replied":
                yield from self._replied(event)
            case "shell.printed" | "tool.called" | "file.changed" | "tool.returned":
                yield from self._tool(kind, event, changed)
            case "command.ended" if event.get("shell") == AGENT:
                code = event.get("exit_code")
                self._exit_code = code if isinstance(code, int) else None
            case _ if kind in HELPER_EVENTS:
                yield from self.plan.update(kind, event)
            case _:
                yield from _other(kind, event)

    def _replied(self, event: Event) -> Iterator[Update]:
        text, shown = str(event.get("text") or ""), self._shown
        self._shown, self._turn = "", None
        if self.replays and event.get("thinking"):
            yield helpers.update_agent_thought_text(str(event["thinking"]))
        rest = text.removeprefix(shown) if text.startswith(shown) else f"\n\n{text}"
        if rest.strip():
            yield helpers.update_agent_message_text(rest)

    def _tool(self, kind: str, event: Event, changed: ChangedText | None) -> Iterator[Update]:
        call, tool = str(event.get("call_id") or ""), str(event.get("tool") or "")
        if tool in HIDDEN:
            return
        match kind:
            case "tool.called":
                self._running = call
                yield self.started(event)
            case "shell.printed" if self._running and event.get("shell") == AGENT:
                if not event.get("background_id"):
                    yield self._print(str(event.get("text") or ""))
            case "file.changed" if changed is not None and call:
                self._changed.setdefault(call, []).append(changed)
            case "tool.returned":
                self._running = ""
                yield self._returned(call, event)

    def _print(self, text: str) -> Update:
        call = self._running
        if self.shows_terminals:
            self._printed[call] = "printed"
            return _with_meta(
                helpers.update_tool_call(call), terminal_output={"terminal_id": call, "data": text}
            )
        printed = self._printed[call] = (self._printed.get(call, "") + text)[-MAX_OUTPUT_CHARS:]
        return helpers.update_tool_call(call, content=[_text_content(printed)])

    def started(self, event: Event, status: Any = "in_progress") -> Update:
        tool, arguments = str(event.get("tool")), _arguments(event.get("arguments"))
        call, in_terminal = str(event.get("call_id")), self.shows_terminals and tool in IN_TERMINAL
        update = helpers.start_tool_call(
            call,
            _title(tool, arguments),
            kind=KINDS.get(tool, "other"),
            status=status,
            content=[_terminal(call)] if in_terminal else None,
            locations=self._locations(arguments),
            raw_input=arguments or None,
        )
        if not in_terminal:
            return update
        self._exit_code = None
        return _with_meta(update, terminal_info={"terminal_id": call, "cwd": self.directory})

    def _returned(self, call: str, event: Event) -> Update:
        if self.shows_terminals and event.get("tool") in IN_TERMINAL:
            return self._left_terminal(call, event)
        ok, text = bool(event.get("ok")), str(event.get("text") or "")
        changed, printed = self._changed.pop(call, []), self._printed.pop(call, "")
        content: list[Any] = [
            schema.FileEditToolCallContent(
                type="diff", path=each.path, old_text=each.before, new_text=each.after
            )
            for each in changed
        ]
        if not (content and ok):
            content.append(_text_content(text if len(text) >= len(printed) else printed))
        locations = [schema.ToolCallLocation(path=each.path) for each in changed] or None
        return helpers.update_tool_call(
            call, status="completed" if ok else "failed", content=content, locations=locations
        )

    def _left_terminal(self, call: str, event: Event) -> Update:
        """The end of a command in a terminal; what it did not print, such as why it was denied, is text."""
        content: list[Any] = [_terminal(call)]
        if not self._printed.pop(call, ""):
            content.append(_text_content(str(event.get("text") or "")))
        locations = [schema.ToolCallLocation(path=each.path) for each in self._changed.pop(call, [])]
        status: Any = "completed" if event.get("ok") else "failed"
        update = helpers.update_tool_call(call, status=status, content=content, locations=locations or None)
        left = {"terminal_id": call, "exit_code": self._exit_code, "signal": None}
        return _with_meta(update, terminal_exit=left)

    def _locations(self, arguments: Mapping[str, Any]) -> list[schema.ToolCallLocation] | None:
        path = arguments.get("path")
        if not isinstance(path, str) or not path:
            return None
        line = next((arguments[name] for name in ("line", "first", "start_line") if name in arguments), None)
        line = line if isinstance(line, int) and line > 0 else None
        return [schema.ToolCallLocation(path=self.outside(path), line=line)]

    def outside(self, path: str) -> str:
        """The editor's path of a file of the workspace."""
        path = path.removeprefix("/workspace/").removeprefix("./")
        return path if path.startswith("/") else f"{self.directory}/{path}"


def _other(kind: str, event: Event) -> Iterator[Update]:
    def text(name: str) -> str:
        return str(event.get(name) or "")

    match kind:
        case "question.asked":
            choices = "".join(f"\n{n}. {each}" for n, each in enumerate(event.get("choices") or (), start=1))
            yield helpers.update_agent_message_text(f"\n\n{text('text')}{choices}\n")
        case "step.reached" if text("message").startswith("warning:"):
            yield helpers.update_agent_thought_text(f"{text('message')}\n")
        case "context.compacted":
            yield helpers.update_agent_thought_text("The conversation was summarised.\n")
        case "egress.attempted" if not event.get("allowed"):
            refused = f"Blocked a connection to {text('host')}:{event.get('port')}: {text('reason')}\n"
            yield helpers.update_agent_thought_text(refused)
        case "tests.run" if event.get("cause") != "tool":
            yield _tests(event)
        case "change.proposed":
            yield helpers.update_agent_message_text(
                f"\n\n{text('title')}: branch `{text('branch')}` {text('url')}\n"
            )
        case "delivery.ended" if event.get("outcome") == "failed":
            yield helpers.update_agent_message_text(f"\n\nNot delivered: {text('reason')}\n")
        case "session.changed":
            for change in event.get("changes") or ():
                if change.get("name") == "persona" and change.get("after"):
                    yield helpers.update_current_mode(str(change["after"]))
        case "run.ended" if event.get("outcome") == "limit_reached":
            yield helpers.update_agent_message_text(f"\n\nThe run was stopped: {text('reason')}\n")
        case "run.ended" if event.get("outcome") == "tests_failing":
            yield helpers.update_agent_message_text(f"\n\nTests failing: {text('reason')}\n")


def _tests(event: Event) -> Update:
    return helpers.start_tool_call(
        f"tests-{event.get('test_run')}",
        one_line(f"tests: {summary_line(event)}", MAX_TITLE_CHARS),
        kind="execute",
        status="completed" if event.get("ok") else "failed",
        content=[_text_content("\n".join(result_lines(event)))],
    )


def _terminal(call: str) -> Any:
    return schema.TerminalToolCallContent(type="terminal", terminal_id=call)


def _with_meta(update: Any, **meta: Any) -> Update:
    update.field_meta = meta
    return update


def _text_content(text: str) -> Any:
    return helpers.tool_content(helpers.text_block(text))


def _arguments(text: object) -> dict[str, Any]:
    try:
        parsed = json.loads(str(text or "{}"))
    except (ValueError, RecursionError):
        return {"text": str(text)}
    return parsed if isinstance(parsed, dict) else {}


def _title(tool: str, arguments: Mapping[str, Any]) -> str:
    """The tool and its most telling argument."""
    names = ("command", "path", "pattern", "query", "name")
    telling = next((arguments[name] for name in names if isinstance(arguments.get(name), str)), "")
    return one_line(f"{tool} {telling}".strip(), MAX_TITLE_CHARS)
