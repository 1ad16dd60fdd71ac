"""Serves sessions to editors with the Agent Client Protocol."""
