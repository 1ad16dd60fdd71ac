"""The tests of a repository: detect the runner, run it, and read its results."""
