"""The answer of a user to a question for approval, in words."""

from collections.abc import Mapping
from typing import Any

SCOPES = {"once": "once", "session": "for this session", "always": "permanently"}


def answer_text(event: Mapping[str, Any]) -> str:
    scope = SCOPES.get(str(event.get("scope")), "")
    return f"allowed it {scope}".rstrip() if event.get("allowed") else "denied it"
