"""Decides which directories may be worked in, copied from and delivered into."""
