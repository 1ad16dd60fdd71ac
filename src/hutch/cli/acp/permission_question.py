"""Asks the editor's user what the agent asks: may this tool call run, and which of these choices."""

from collections.abc import Mapping
from typing import Any

from acp import schema

from hutch.system.terminal_safe_text import one_line

MAX_NAME_CHARS = 200
CHOICE, IN_CHAT = "choice-", "in-chat"


def approval_options(event: Mapping[str, Any]) -> list[schema.PermissionOption]:
    """The answers to an approval; each says for what it counts."""
    option = schema.PermissionOption
    covers = one_line("; ".join(map(str, event.get("covers") or ())), MAX_NAME_CHARS)
    options = [option(option_id="once", name="Allow once", kind="allow_once")]
    if covers:
        options += [
            option(option_id="session", name=f"Allow in this session: {covers}", kind="allow_always"),
            option(option_id="always", name=f"Always allow, in all sessions: {covers}", kind="allow_always"),
        ]
    return [*options, option(option_id="deny", name="Deny", kind="reject_once")]


def approval_input(option_id: str | None, call_id: str) -> tuple[str, dict[str, Any]]:
    """The input that an answer means; None: the user closed the question."""
    if option_id in ("once", "session", "always"):
        return "approve", {"call_id": call_id, "scope": option_id}
    return "deny", {"call_id": call_id, "reason": ""}


def choice_options(choices: list[str]) -> list[schema.PermissionOption]:
    option = schema.PermissionOption
    offered = [
        option(option_id=f"{CHOICE}{number}", name=one_line(choice, MAX_NAME_CHARS), kind="allow_once")
        for number, choice in enumerate(choices)
    ]
    return [*offered, option(option_id=IN_CHAT, name="Answer in the chat", kind="reject_once")]


def chosen(option_id: str | None, choices: list[str]) -> str | None:
    """The text of a choice; None if the user answers in the chat, or not at all."""
    number = (option_id or "").removeprefix(CHOICE)
    return choices[int(number)] if number.isdecimal() and int(number) < len(choices) else None


def selected(response: schema.RequestPermissionResponse) -> str | None:
    """The id of the option that the user has selected."""
    outcome = response.outcome
    return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else None
