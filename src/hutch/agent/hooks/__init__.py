"""Hooks: commands of an owner or a repository that run in the jail when the agent does something."""
