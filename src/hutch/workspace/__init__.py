"""The files that commands work on: confined to a directory, with a snapshot of every state."""
