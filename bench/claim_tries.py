"""Eight tries of one prompt, against one run: the model is the bottleneck, as it is in practice."""

import time
from collections.abc import Iterator
from typing import Any

from bench.result_row import Row

from tests.cli.project_with_failing_test import FIXES, Project, temporary_project

TRIES = 8
MODEL_S = 6.0  # before each of the two replies


def measure() -> Iterator[Row]:
    slow: tuple[dict[str, Any], ...] = tuple({**each, "delay_s": MODEL_S} for each in FIXES)
    with temporary_project() as project:
        model = project.cassette(*slow)
        one_s = _run(project, model)
        several_s = _run(project, model, "--tries", str(TRIES), "--no-early-stop")
    yield Row(f"{TRIES} tries of a prompt", several_s, one_s, "s", 1.5, "one run with the same model")


def _run(project: Project, model: str, *words: str) -> float:
    began = time.monotonic()
    ran = project.hutch("run", "Mend add", "--no-pr", "--model", model, *words)
    assert ran.returncode == 0, ran.stderr
    return time.monotonic() - began
