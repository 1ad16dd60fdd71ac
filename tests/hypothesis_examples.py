"""How many examples a property is tried with."""

import os

ALL = os.environ.get("HUTCH_TEST_EXAMPLES") == "all"  # set by `make soak`
SHARE, FEWEST = 3, 10


def examples(count: int) -> int:
    """All in `make soak`, and a third of them in `make test`, which draws other ones each time."""
    return count if ALL else max(count // SHARE, min(count, FEWEST))
