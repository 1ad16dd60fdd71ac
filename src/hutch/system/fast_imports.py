"""Faster imports: without garbage collection, and without modules that are not needed."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# structlog draws tracebacks with rich where it finds it, and keeps context by greenlet. Our tracebacks are
# plain text, and we have no greenlets.
UNUSED_BY_STRUCTLOG = ("greenlet", "rich.console", "rich.pretty", "rich.traceback")


@contextmanager
def without_gc() -> Iterator[None]:
    """Import with GC disabled: modules are never garbage, and collecting takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def load_structlog() -> None:
    """Import structlog without rich, which with pygments and attrs takes longer than structlog itself."""
    modules: dict[str, Any] = sys.modules
    absent = [name for name in UNUSED_BY_STRUCTLOG if name not in modules]
    modules.update(dict.fromkeys(absent))  # None makes an import fail as if nothing were installed
    try:
        import structlog  # noqa: F401
    finally:
        for name in absent:
            del modules[name]
