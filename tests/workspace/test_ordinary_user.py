"""The tests of preparation and layers, once more as a user who is not root."""

import os

import pytest

from tests.ordinary_user import pytest_as

UID = 54398
# A few together: to load Hutch and pytest anew takes longer than most of them.
SUITES = (
    (
        "workspace/test_workspace_builder.py",
        "workspace/test_repository_and_head_detection.py",
        "workspace/test_uncommitted_changes.py",
    ),
    (
        "workspace/test_shared_base_checkout.py",
        "workspace/test_tree_copy.py",
        "workspace/test_workspace_filling.py",
        "workspace/test_source_repository_in_jail.py",
        "workspace/test_workspace_mount.py",
        "workspace/test_dependency_layers.py",
        "workspace/test_workspace_quota.py",
        "workspace/test_workspace_and_cache_removal.py",
    ),
)


@pytest.mark.soak  # `make fresh` runs all tests as an ordinary user
@pytest.mark.skipif(os.geteuid() != 0, reason="is an ordinary user already")
@pytest.mark.parametrize("suites", SUITES, ids=lambda suites: suites[0])
def test_as_an_ordinary_user(suites: tuple[str, ...]) -> None:
    pytest_as(UID, *suites)
