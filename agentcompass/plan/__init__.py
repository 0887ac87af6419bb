"""From what was written, config files and earlier results to immutable work."""
