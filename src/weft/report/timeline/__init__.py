"""Renders timelines: a trace for Perfetto, tables for the terminal, a page."""
