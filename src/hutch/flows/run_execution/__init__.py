"""Turns a prompt into a tested change: submitted, performed by a worker, delivered."""
