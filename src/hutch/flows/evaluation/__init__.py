"""Cases for the agent: run side by side, each graded by tests that it could not see."""
