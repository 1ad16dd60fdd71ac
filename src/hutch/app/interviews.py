"""The services of interviews."""

from functools import partial

from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.flow_services import Services
from hutch.flows.interviews.adaptive_policy import read_policy
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.questions.question_banks import find_question
from hutch.settings import LoadedSettings


def interviews_of(loaded: LoadedSettings, services: Services) -> InterviewServices:
    """Reads the adaptive policy. Blocks the thread."""
    executor = CodeExecutor(
        loaded.paths.data / "execution", concurrency=2, named_toolchains=loaded.settings.jail.toolchains
    )
    return InterviewServices(
        services=services,
        load_question=partial(find_question, ()),
        policy=read_policy(),
        executor=executor,
    )
