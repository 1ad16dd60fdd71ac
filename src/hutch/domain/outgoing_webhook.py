"""Webhooks to other systems: where they go, and each message on its way.

A message says that something happened, and names the interview. It has no content of the interview and no
name of a person: the receiver reads those with a token, by its rights.
"""

from typing import Literal, get_args

from hutch.system.lazy_dataclass import dataclass

WebhookEvent = Literal[
    "interview.created",
    "interview.invited",
    "interview.begun",
    "interview.ended",
    "interview.report_ready",
    "interview.erased",
    "ping",
]
WEBHOOK_EVENTS: tuple[WebhookEvent, ...] = get_args(WebhookEvent)
MessageState = Literal["waiting", "delivered", "failed"]

# The webhook for each event of a room's log that has one.
OF_LOGGED: dict[str, WebhookEvent] = {
    "interview.planned": "interview.created",
    "interview.invited": "interview.invited",
    "interview.begun": "interview.begun",
    "interview.ended": "interview.ended",
    "interview.sealed": "interview.report_ready",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    """An address of another system. Its secrets are in the vault."""

    id: str
    url: str
    description: str = ""
    events: tuple[str, ...] = ()  # empty: all
    disabled: bool = False
    created_by: str
    created_ms: int
    old_secret_until_ms: int = 0  # until then, messages are also signed with the secret before

    def wants(self, event: str) -> bool:
        return not self.disabled and (event == "ping" or not self.events or event in self.events)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """One message to one endpoint, and the attempts to deliver it."""

    id: str
    endpoint_id: str
    event: str
    interview: str
    body: str  # JSON, exactly as it is signed and sent
    state: MessageState = "waiting"
    attempts: tuple[dict[str, object], ...] = ()  # each with at_ms, status and error
    next_ms: int = 0
    created_ms: int = 0
