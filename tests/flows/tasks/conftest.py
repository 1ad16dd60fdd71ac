"""Tasks in a real database."""

import pytest

from hutch.domain.redaction import Redactor
from hutch.flows.tasks.task_requests import TaskServices
from hutch.store.event_log import SqlLog


@pytest.fixture
def services(log: SqlLog) -> TaskServices:
    return TaskServices(log, Redactor(["s3cr3t-value"]))
