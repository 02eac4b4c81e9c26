"""Writes the course for readers: a static site, and notebooks."""
