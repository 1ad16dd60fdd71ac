"""Tests here run on both databases."""

from tests.log_on_each_engine import location, log, pytest_generate_tests

__all__ = ["location", "log", "pytest_generate_tests"]
