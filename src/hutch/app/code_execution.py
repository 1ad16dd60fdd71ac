"""The executor of given code, by the settings."""

from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.settings import LoadedSettings


def code_executor(loaded: LoadedSettings, *, concurrency: int | None = None) -> CodeExecutor:
    """The executor of this process."""
    own, at_once = loaded.settings, concurrency or loaded.settings.execution.concurrency
    toolchains = own.jail.toolchains
    return CodeExecutor(loaded.paths.execution_cache, concurrency=at_once, named_toolchains=toolchains)
