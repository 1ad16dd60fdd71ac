"""Repositories and forges: fetches code, pushes branches, and opens pull requests."""
