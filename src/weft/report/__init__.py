"""Renders values as text, tables and HTML pages. It imports nothing but values and errors."""
