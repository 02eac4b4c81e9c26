"""Predicts the times of the launches of a file."""
