"""Values that cross between the floors: requests, events, errors, settings. No I/O."""
