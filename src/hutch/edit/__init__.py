"""Edits and patches of files: located by their text, applied completely or refused with a reason."""
