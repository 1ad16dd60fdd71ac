"""Detects how to install the dependencies of a repository, from its files."""
