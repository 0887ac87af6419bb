"""Tasks that are directories: the Harbor format, Terminal-Bench's data sets in it, and its first generation."""
