"""A plugin that runs each given test many times: `-p tests.repeat_plugin --repeat COUNT TEST…`.

Each repeat is a parameter of its own, so workers share them and a report names the one that failed.
"""

import pytest

STEP = "repeat_step"
ONLY = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("repeated")
    group.addoption("--repeat", type=int, default=1, metavar="COUNT", help="how often each test is run")


def pytest_configure(config: pytest.Config) -> None:
    """An id with parameters names nothing once there is one more parameter: it is looked for afterwards."""
    config.stash[ONLY] = [each for each in config.args if "[" in each]
    config.args[:] = dict.fromkeys(each.partition("[")[0] for each in config.args)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.fixturenames.append(STEP)
    metafunc.parametrize(STEP, range(metafunc.config.getoption("--repeat")), ids=lambda step: f"#{step}")


@pytest.fixture
def repeat_step(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    only = config.stash[ONLY]
    named = {each.partition("[")[0] for each in only}
    asked = [item for item in items if item.nodeid.partition("[")[0] not in named or _once(item) in only]
    config.hook.pytest_deselected(items=[item for item in items if item not in asked])
    items[:] = asked


def _once(item: pytest.Item) -> str:
    """The id that the test has when it is not repeated."""
    before, _, _ = item.nodeid.rpartition("#")
    return f"{before[:-1]}]" if before.endswith("-") else before[:-1]
