"""Interviews: plans, rooms, clocks, levels of help, and what is recorded of them."""
