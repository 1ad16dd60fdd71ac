"""The names of signals, the same for REST, MCP, the command line and the agent's tools.

A signal is written as `TERM`, `SIGTERM`, `term` or 15.
"""

import signal
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

NUMBERS = {each.name.removeprefix("SIG"): int(each) for each in signal.Signals}
NAMES = {number: name for name, number in reversed(NUMBERS.items())}
MAX_NUMBER = int(signal.SIGRTMAX)
COMMON = "TERM, INT, KILL, HUP, QUIT, STOP, CONT, USR1 or USR2"


def parse_signal(value: object) -> int:
    """The number of a signal."""
    if isinstance(value, str):
        name = value.strip().upper().removeprefix("SIG")
        if name in NUMBERS:
            return NUMBERS[name]
        value = int(name) if name.isascii() and name.isdigit() and len(name) < 4 else value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_NUMBER:
        return value
    raise ValueError(f"It is not a signal. Give {COMMON}, or a number from 1 to {MAX_NUMBER}")


def signal_name(number: int) -> str:
    """The name of a signal without SIG; its number if it has none."""
    return NAMES.get(number, str(number))


SignalNumber = Annotated[
    int,
    BeforeValidator(parse_signal),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}], "examples": ["TERM", "KILL", 9]}),
]
"""A signal in a request."""
