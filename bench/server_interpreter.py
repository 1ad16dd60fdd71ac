"""The interpreter as a server configures it, for benchmarks of a server's work in their own process."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hutch.gateway.server_lifecycle import GENERATIONS, SWITCH_S


@contextmanager
def configured_as_server() -> Iterator[None]:
    """Like a server, switch threads often, and collect the oldest generation rarely."""
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*GENERATIONS)
    gc.freeze()
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
