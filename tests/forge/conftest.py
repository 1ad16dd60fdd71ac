"""Tests of forges use a Hutch home, like those of flows."""

from tests.flows.conftest import hutch, place

__all__ = ["hutch", "place"]
