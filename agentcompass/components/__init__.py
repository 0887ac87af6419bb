"""Extension points, the registry that finds components by id, and the built-in ones."""
