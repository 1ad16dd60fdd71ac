"""Where code comes from and returns."""
