"""Built-in analyzers, one file each."""
