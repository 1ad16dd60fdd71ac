"""The executor of given code, by the settings."""

from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.interview_questions.bank_directories import bank_directories
from hutch.settings import LoadedSettings


def code_executor(loaded: LoadedSettings, *, concurrency: int | None = None) -> CodeExecutor:
    """The executor of this process."""
    own, cache = loaded.settings, loaded.paths.execution_cache
    at_once, hidden = concurrency or own.execution.concurrency, bank_directories(own.questions.banks)
    return CodeExecutor(cache, concurrency=at_once, named_toolchains=own.jail.toolchains, hidden=hidden)
