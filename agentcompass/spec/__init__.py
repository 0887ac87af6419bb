"""What a user writes and what it resolves to: data, its codec, and where each value stands in a file."""
