"""Built-in benchmarks, one file or folder each."""
