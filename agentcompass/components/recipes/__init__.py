"""Built-in recipes, one file each."""
