"""Creates, stores and removes workspaces."""
