"""The verbs of the lab."""
