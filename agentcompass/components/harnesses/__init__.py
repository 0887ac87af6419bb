"""Built-in harnesses, one file or folder each."""
