"""Reports: text and pictures out of values."""
