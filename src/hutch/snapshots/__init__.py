"""Snapshots of a workspace: taking, comparing, restoring and collecting them."""
