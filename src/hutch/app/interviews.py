"""The services of interviews."""

from functools import partial

from hutch.app.code_execution import execution_limits, question_banks
from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.flow_services import Services
from hutch.flows.interviews.adaptive_policy import read_policy
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.questions.question_banks import find_question
from hutch.settings import LoadedSettings


def interviews_of(loaded: LoadedSettings, services: Services, executor: CodeExecutor) -> InterviewServices:
    """Reads the adaptive policy. Blocks the thread."""
    return InterviewServices(
        services=services,
        load_question=partial(find_question, question_banks(loaded.settings)),
        policy=read_policy(),
        executor=executor,
        limits=execution_limits(loaded.settings),
    )
