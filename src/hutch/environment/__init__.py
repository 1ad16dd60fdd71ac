"""The dependencies of repositories: detected from their files, installed in a jail, shared as layers."""
