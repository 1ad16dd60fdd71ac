"""Authentication, login and the filter in front of all requests."""
