"""Constants of an SM and of a block that the cost models of several families share.

Bandwidth, arithmetic rates and launch time of a GPU are fields of `target.Target`.
"""

from __future__ import annotations

SM_READ_BANDWIDTH = 60e9
"""Bytes per second that one SM reads while others do little; fitted by hand on an H200."""
SM_COPY_BANDWIDTH = 50e9
"""Bytes per second that one SM reads and writes while others do little; fitted by hand on an
H200."""
BLOCK_RESERVED = 1024
"""Bytes of shared memory that the driver takes from an SM for each block, from sm_80 on."""
