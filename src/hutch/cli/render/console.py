"""The console for readable output: colour on a terminal, plain text elsewhere."""

from rich.console import Console


class Terminal(Console):
    """Rich decides about colour (a tty, NO_COLOR, TERM); lines are not wrapped, so they can be copied."""

    def __init__(self) -> None:
        super().__init__(highlight=False, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        # Rich would exit with status 1, which Hutch reserves for its own bugs. main.py handles a closed pipe.
        raise BrokenPipeError

    @property
    def supports_unicode(self) -> bool:
        return self.encoding.lower().replace("-", "").startswith("utf")
