"""Runs evaluation cases in parallel, and grades each by tests that the agent could not see."""
