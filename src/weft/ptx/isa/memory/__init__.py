"""Data movement, atomics, asynchronous copies and matrix fragments in memory."""
