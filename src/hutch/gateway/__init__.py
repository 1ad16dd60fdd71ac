"""The server: REST, streams, GraphQL, MCP, and the authentication in front of them."""
