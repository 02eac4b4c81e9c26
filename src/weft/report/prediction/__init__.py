"""Predicted times as text."""
