"""The executor of given code, and the question banks, by the settings."""

import os
from pathlib import Path

from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.code_execution.execution_results import ExecutionLimits
from hutch.settings import LoadedSettings, Settings


def code_executor(loaded: LoadedSettings, *, concurrency: int | None = None) -> CodeExecutor:
    """The executor of this process."""
    settings = loaded.settings
    return CodeExecutor(
        loaded.paths.execution_cache,
        concurrency=concurrency or settings.execution.concurrency or os.cpu_count() or 1,
        named_toolchains=settings.jail.toolchains,
    )


def execution_limits(settings: Settings) -> ExecutionLimits:
    """The limits of an execution that asks for none."""
    own = settings.execution
    return ExecutionLimits(
        timeout_s=own.timeout_s,
        case_timeout_s=own.case_timeout_s,
        memory_bytes=own.memory_bytes,
        output_bytes=own.output_bytes,
    )


def question_banks(settings: Settings) -> list[Path]:
    """The question banks of the installation."""
    return [Path(each) for each in settings.questions.banks]
