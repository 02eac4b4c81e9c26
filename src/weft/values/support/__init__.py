"""What goes into a report of a bug."""
