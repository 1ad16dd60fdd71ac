"""The tests of a repository: which runner it uses, and what came of a run."""
