"""The checks of `hutch doctor` besides the machine: the model and a repository."""
