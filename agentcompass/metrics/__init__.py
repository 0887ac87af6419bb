"""Pure functions from verdicts to scores: values, intervals, bounds, pass@k, counts."""
