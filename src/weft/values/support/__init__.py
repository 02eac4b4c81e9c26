"""The contents of a report of a bug."""
