"""Planted bugs under weft's sanitizer and under other tools: see ../sanitizer_table.py."""
