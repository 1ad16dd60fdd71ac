"""How the settings say that a repository is tested."""

from typing import Any

from hutch.agent.repository_testing.services_for_tests import Report, TestServices
from hutch.agent.repository_testing.workspace_test_suite_runs import SuiteOptions
from hutch.domain.dependency_plan import Service
from hutch.settings import Settings


def suite_options(settings: Settings, report: Report | None = None, **more: Any) -> SuiteOptions:
    """The options of the tests of one sandbox; `report` gets the events of its services."""
    services = TestServices(services_of(settings), report)
    return SuiteOptions(**{**dict(settings.tests), **more, "services": services})


def services_of(settings: Settings) -> list[Service]:
    found = settings.environment.services
    return [Service(each.name, each.command, each.port, each.probe or "") for each in found]
