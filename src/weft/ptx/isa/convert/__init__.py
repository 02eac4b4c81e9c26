"""Conversions between types: `cvt`."""
