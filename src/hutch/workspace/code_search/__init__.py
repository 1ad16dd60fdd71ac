"""Finds code by words and by symbols, in an index that follows the snapshots."""
