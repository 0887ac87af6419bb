"""The terminal: parse, call, print, exit code. The only floor that prints."""
