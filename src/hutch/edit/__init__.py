"""Edits and patches: found where they were meant, made whole or not at all, refused with a reason."""
