"""Where commands print for people: colour on a terminal, plain text elsewhere."""

from rich.console import Console


class Terminal(Console):
    """Rich decides about colour (a tty, NO_COLOR, TERM); lines keep their length, to be copied."""

    def __init__(self) -> None:
        super().__init__(highlight=False, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        # Rich would exit with 1, which here means a bug; main.py answers a closed pipe.
        raise BrokenPipeError

    @property
    def speaks_unicode(self) -> bool:
        return self.encoding.lower().replace("-", "").startswith("utf")
