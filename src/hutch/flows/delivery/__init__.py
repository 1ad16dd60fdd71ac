"""Turns the work of a run into a change: checked before the start, tested, committed, proposed, recorded."""
