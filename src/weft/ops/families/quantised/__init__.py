"""Linear layers whose weights have four or eight bits."""
