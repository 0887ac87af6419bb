"""Events of a run, what they add up to, and the ways to show them."""
