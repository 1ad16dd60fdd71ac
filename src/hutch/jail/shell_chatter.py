"""What bash adds to a command's standard error because it is interactive, taken out again.

It is a line for each background job, the word "exit", and a complaint that there
is no terminal. Nothing here runs.
"""

import re

TERMINAL_MISSED = re.compile(rb"bash: \[\d+: \d+ \(\d+\)\] tcsetattr: [^\n]*\n")
LEFT = b"exit\n"
# bash writes the complaint in several pieces, and its last word only when it leaves
UNSURE = re.compile(rb"(?:bash: (?:\[[^\n]{0,200})?|^exit\n)\Z", re.MULTILINE)
JOB_BEGAN = re.compile(rb"^\[\d+\] \d+\n", re.MULTILINE)
BACKGROUND = re.compile(r"(?<![&<>|])&(?![&>])")  # in a command


class Chatter:
    """For what comes in pieces."""

    def __init__(self, command: str) -> None:
        self._has_jobs = BACKGROUND.search(command) is not None
        self._held = b""

    def add(self, data: bytes) -> bytes:
        """The same without what bash has added; what may be the beginning of that is held back."""
        data = self._held + data
        self._held = b""
        if b"bash: " in data:
            data = TERMINAL_MISSED.sub(b"", data)
        if (data.endswith(LEFT) or b"bash: " in data) and (unsure := UNSURE.search(data)):
            data, self._held = data[: unsure.start()], unsure[0]
        return JOB_BEGAN.sub(b"", data) if self._has_jobs else data

    def end(self, *, left: bool) -> bytes:
        """What was held back and nothing came after; `left`: the shell is gone."""
        held, self._held = self._held, b""
        return b"" if left and held == LEFT else held


def without_chatter(stderr: bytes, *, nonce: bytes, jobs_began: bool, left: bool) -> bytes:
    """What a command wrote, without what bash has added, and without an answer that went astray because the
    command closed its pipe."""
    stderr = TERMINAL_MISSED.sub(b"", stderr)
    if jobs_began:
        stderr = JOB_BEGAN.sub(b"", stderr)
    if left:
        stderr = stderr.removesuffix(LEFT)
        stderr = re.sub(rb"(?:declare [^\n]*\n)*\x00%s [^\x00]*\x00" % nonce, b"", stderr)
    return stderr
