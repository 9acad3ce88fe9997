"""Where probes run, and the record of what they observed."""
