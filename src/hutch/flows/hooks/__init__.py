"""Hooks of an installation and of repositories: found, trusted, and given to runs."""
