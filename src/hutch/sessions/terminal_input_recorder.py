"""Records the text that users type in a terminal.

A program that reads a line without echo asks for a password: then the number of characters is recorded, and
not the text.
"""

import termios

from hutch.domain.events import Event, TerminalTyped
from hutch.jail.shared_terminal import Terminal
from hutch.sessions.command_and_terminal_recorder import OutputRecorder
from hutch.sessions.commands_typed_in_terminal import TerminalCommands

LOCAL_MODES = 3  # the index in a list of terminal modes


class TerminalInput:
    """Records the input of one terminal."""

    def __init__(
        self, id: str, terminal: Terminal, commands: TerminalCommands, output_recorder: OutputRecorder
    ) -> None:
        self._id = id
        self._terminal = terminal
        self._commands = commands
        self._output_recorder = output_recorder
        self._key: object = None  # of the user who types now

    @property
    def is_hidden(self) -> bool:
        """True if a program reads lines without showing them. Ask before writing: the program may change this
        when it gets the line."""
        try:
            modes = termios.tcgetattr(self._terminal.fd)[LOCAL_MODES]
        except termios.error:  # the terminal has just closed
            return True
        return bool(modes & termios.ICANON) and not modes & termios.ECHO

    def record(self, data: bytes, by: str, *, hidden: bool) -> None:
        """Record bytes that a user writes to the terminal."""

        def make(text: str, skipped: int) -> Event:
            if hidden:
                return TerminalTyped(terminal=self._id, text="", hidden_chars=len(text) + skipped, by=by)
            return TerminalTyped(terminal=self._id, text=text, skipped_bytes=skipped, by=by)

        key = ("typed", self._id, by, hidden)
        if key != self._key:
            self.settle()
            self._key = key
        if hidden:
            data = b"*" * sum(byte & 0xC0 != 0x80 for byte in data)  # one for each character
        else:
            self._commands.type(data, by, self._terminal.seq)
        self._output_recorder.add(key, data, make, typed=True, is_edited=True)

    def settle(self) -> None:
        """Place the text so far before everything that is recorded later."""
        self._output_recorder.settle(self._key)

    def end(self) -> None:
        """Write the rest of the text: no more will be typed."""
        self._output_recorder.end(self._key)
