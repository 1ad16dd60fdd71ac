"""A report of an access log: its routes by use, with their failures and their slowest times."""

from log_line import parse_line


def summarize(lines: list[str]) -> dict:
    """The number of skipped lines, and the routes, those with the most requests first."""
    raise NotImplementedError(parse_line)
