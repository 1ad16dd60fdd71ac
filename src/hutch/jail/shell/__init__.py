"""Shells in a jail: processes that outlive their commands, and the commands that run in them."""
