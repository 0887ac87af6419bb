"""Built-in environments, one file each."""
