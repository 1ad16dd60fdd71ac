"""Backups of a whole installation in one file, and their restoration."""
