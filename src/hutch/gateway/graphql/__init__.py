"""What there is, as a graph: the same functions as the REST API, asked for in one go."""
