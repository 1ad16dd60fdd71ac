"""`hutch edit`: a file of a session in the user's own editor."""
