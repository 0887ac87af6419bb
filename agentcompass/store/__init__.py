"""Results on disk: layout, journal, reader, leases, summary."""
