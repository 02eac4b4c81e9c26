"""Verbs that look for errors of the simulated GPU."""
