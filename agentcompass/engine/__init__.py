"""The nursery tree: scheduling, deadlines, retries, cleanup. Knows components by `components.base` alone."""
