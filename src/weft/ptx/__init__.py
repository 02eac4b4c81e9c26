"""Stage 2 of 5: PTX as data. `parse.parse` turns PTX text into a `PtxModule`."""
