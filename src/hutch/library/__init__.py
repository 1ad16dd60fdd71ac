"""Hutch as a Python library: sessions, commands, files and runs of a server in a few typed calls."""
