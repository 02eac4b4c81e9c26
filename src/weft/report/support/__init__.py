"""Renders reports of bugs."""
