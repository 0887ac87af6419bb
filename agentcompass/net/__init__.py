"""HTTP lanes, retry timing and endpoint limits: know nothing of evaluation."""
