"""Runs given code against given cases in throw-away jails, with the toolchains of each language."""
