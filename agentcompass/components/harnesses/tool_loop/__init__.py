"""A small agent: a model with a shell, until it says that it is done."""
