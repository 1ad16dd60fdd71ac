"""Hutch: coding agents and people at work inside jails."""

__version__ = "0.1.0"
