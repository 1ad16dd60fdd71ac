"""The commands of `hutch`, one module each."""
