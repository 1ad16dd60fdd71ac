"""Extensions of an installation: listed, tried, approved, and given to runs."""
