"""How outsiders speak with Hutch."""
