"""What `hutch doctor` checks besides the machine: the model and a repository."""
