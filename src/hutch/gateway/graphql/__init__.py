"""The GraphQL API: the data of the REST API, several objects in one query."""
