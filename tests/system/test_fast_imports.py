"""Quick imports: nothing is searched meanwhile, and afterwards all is as it was."""

import gc
import subprocess
import sys

import pytest

from hutch.system.fast_imports import without_gc

LOADED = """
import sys
from hutch.system.fast_imports import load_structlog
load_structlog()
import structlog
print(*[name for name in ("rich.console", "rich.pretty", "rich.traceback", "attr") if name in sys.modules])
from rich.console import Console
from rich.pretty import pretty_repr
structlog.get_logger().warning("it still logs", number=7)
try:
    raise ValueError("a fault")
except ValueError:
    structlog.get_logger().exception("it still shows")
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_structlog_is_loaded_without_rich_which_others_can_still_load() -> None:
    first, *rest = run(LOADED).splitlines()
    assert first == ""
    shown = "\n".join(rest)
    assert "it still logs" in shown and "ValueError: a fault" in shown


def test_modules_that_were_loaded_before_stay() -> None:
    output = run(
        "import sys, rich.console\n"
        "from hutch.system.fast_imports import load_structlog\n"
        "load_structlog()\n"
        "print(sys.modules['rich.console'] is rich.console, 'rich.pretty' in sys.modules)"
    )
    assert output.split()[0] == "True"
    assert "None" not in output


def test_garbage_is_searched_again_after_an_import_that_fails() -> None:
    assert gc.isenabled()
    with pytest.raises(ImportError), without_gc():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()
