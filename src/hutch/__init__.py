"""Hutch: coding agents and people at work inside jails."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hutch.library.connection import Connection

__version__ = "0.1.0"


def connect(url: str = "", token: str = "") -> "Connection":
    """Connect to a server: at an address with a token, or else the one that `hutch` commands use."""
    from hutch.library.connection import connect_to

    return connect_to(url, token)
