"""Stage 2 of 5: PTX as data. `parse` turns PTX text into a `Module`."""

from weft.ptx.parse import parse

__all__ = ["parse"]
