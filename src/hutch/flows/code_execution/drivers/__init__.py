"""Programs that run inside the jail, beside the given code: they call it and report the result."""
