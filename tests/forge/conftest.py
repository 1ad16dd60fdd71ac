"""Tests of forges work with a home of Hutch, as those of flows do."""

from tests.flows.conftest import hutch, place

__all__ = ["hutch", "place"]
