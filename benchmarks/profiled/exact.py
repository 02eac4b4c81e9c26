"""The counters that must be equal to ncu's; all others are models, or count PTX."""

from __future__ import annotations

_EXACT = ("l1tex__t_", "l1tex__data_", "memory_l1_", "lts__t_sectors_srcunit_tex_op_atom",
          "lts__t_sectors_srcunit_tex_op_red", "smsp__sass_inst_executed_op_",
          "smsp__sass_data_bytes_mem_shared_op_gmma", "sm__inst_executed_pipe_tensor_op_gmma",
          "sm__ops_path_tensor_op_")  # fmt: skip
_MOVED = ("_op_tma_", "_mem_dshared_op_")
"""Parts of names of what the copy engine and the network between SMs move."""


def is_exact(name: str) -> bool:
    """True if the counter must be equal."""
    moved = name.startswith("l1tex__m_") and any(part in name for part in _MOVED)
    return (name.startswith(_EXACT) or moved) and "lookup" not in name
