"""What every test needs, and no more: fixtures live with the tests that use them, or in `support/`."""
