"""Who comes in, and how."""
