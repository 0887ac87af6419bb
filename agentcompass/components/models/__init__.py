"""Model protocols: the wire forms of one conversation, and the client that speaks them."""
