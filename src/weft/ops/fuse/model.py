"""Limits of fused kernels: sizes that were chosen by hand on an H200.

`benchmarks/records/fuse.jsonl` has the times of fused functions with these limits.
"""

VECTOR_BYTES = 16
"""Bytes of the widest load."""
IN_FLIGHT = 16
"""Bytes of an operand that a thread has in flight."""
FLAT_VECTORS = 1
"""Vectors of an operand that a thread of a flat kernel has in flight."""
ROW_VECTORS = 16
"""Vectors, of all operands together, that a thread has in registers."""
SAVED_VALUES = 64
"""Values: the most that a thread saves from one pass over a row for later ones."""
BLOCK = 256
"""Threads of a block of an elementwise kernel."""
ROW_BLOCK = 1024
"""Threads: the most of a block that computes a row."""
FULL_GPU_ROWS = 64
"""Rows from which on one block per row is enough work for a GPU."""
SHORT_ROW = 4096
"""Elements of a row for which one block is fast enough in any case."""
