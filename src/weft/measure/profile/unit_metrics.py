"""Computes the counters of units that only some kernels use: the copy engine, distributed shared
memory, tensor cores of warpgroups, barriers.

They are missing in the totals of other kernels. The names are ncu's, and their values on an H200
are equal (docs/profile.md), except for those that begin with `weft__`: ncu has none for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from weft.measure.profile.work import is_sparse, is_warpgroup_product, waits_at_barrier
from weft.values.profile import BULK, Access, Instruction

POLLS = "weft__barrier_polls.sum"
MULTICAST = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum"
SECTOR = 32
_BULK = {"tma_ld": "bulk load", "tma_st": "bulk store", "tma_red": "bulk reduction"}
"""ncu's name of an operation of the copy engine -> what it does in global memory."""
_INSTRUCTIONS = {"ld": ("load",), "st": ("store",), "atom": ("atomic", "reduction"),
                 "stas": ("async store",), "redas": ("async reduction",),
                 "tma_st": ("bulk store",), "tma_red": ("bulk reduction",)}  # fmt: skip
"""ncu's name of an instruction on shared memory of another block -> kinds of accesses."""
_CLUSTER_OPS = {"ld": ("load",), "st": ("store", "async store"), "atom": ("atomic", "reduction"),
                "redas": ("async reduction",)}  # fmt: skip
"""The same for what the load/store unit does with them."""
_PRODUCTS = {"f16": "hgmma_src_fp16", "bf16": "hgmma_src_bf16_dst_fp32",
             "tf32": "hgmma_src_tf32_dst_fp32", "s8": "igmma_src_int8",
             "u8": "igmma_src_int8"}  # fmt: skip
"""The type of a product's inputs -> ncu's name; it has none for other types."""


def totals(instructions: Sequence[Instruction], accesses: Sequence[Access]) -> dict[str, float]:
    """Name -> value; `accesses` are those of the instructions."""
    return {
        **_copies(accesses),
        **_cluster(accesses),
        **_products(instructions),
        **_waits(instructions),
    }


def arrived_sectors(accesses: Sequence[Access]) -> int:
    """Sectors that SMs get from L2 by the copy engine; those of a multicast once for each SM."""
    return sum(a.sectors for a in accesses if a.space == "shared" and a.kind in BULK)


def cluster_sectors(accesses: Sequence[Access]) -> int:
    """Sectors that SMs get from other SMs."""
    return sum(_moved(a) for a in accesses if a.space == "cluster")


def _moved(a: Access) -> int:
    """Sectors between two SMs; those of an atomic operation go there and come back."""
    return a.sectors * (2 if a.kind in _CLUSTER_OPS["atom"] else 1)


def of_kinds(accesses: Sequence[Access], space: str, kinds: Sequence[str]) -> list[Access]:
    """The accesses of some kinds to a state space."""
    return [a for a in accesses if a.space == space and a.kind in kinds]


def _copies(accesses: Sequence[Access]) -> dict[str, float]:
    if not any(a.space == "global" and a.kind in BULK for a in accesses):
        return {}
    out: dict[str, float] = {}
    for op, kind in _BULK.items():
        selected = of_kinds(accesses, "global", [kind])
        way = "xbar2l1tex_read" if kind == "bulk load" else "l1tex2xbar_write"
        moved = (
            arrived_sectors(accesses) if kind == "bulk load" else sum(a.sectors for a in selected)
        )
        out[f"smsp__sass_inst_executed_op_{op}.sum"] = sum(a.requests for a in selected)
        out[f"l1tex__m_{way}_sectors_mem_global_op_{op}.sum"] = moved
        out[f"l1tex__m_{way}_bytes_mem_global_op_{op}.sum"] = SECTOR * moved
        out[f"weft__data_bytes_mem_global_op_{op}.sum"] = sum(a.bytes for a in selected)
    sent = of_kinds(accesses, "shared", ["multicast"])
    if sent:
        out[MULTICAST] = SECTOR * sum(a.sectors for a in sent)
    return out


def _cluster(accesses: Sequence[Access]) -> dict[str, float]:
    every = [a for a in accesses if a.space == "cluster"]
    if not every:
        return {}
    out: dict[str, float] = {"weft__data_bytes_mem_dshared.sum": sum(a.bytes for a in every)}
    for op, kinds in _INSTRUCTIONS.items():
        if selected := of_kinds(every, "cluster", kinds):
            name = f"smsp__sass_inst_executed_op_dshared_{op}.sum"
            out[name] = sum(a.requests for a in selected)
    for op, kinds in _CLUSTER_OPS.items():
        if selected := of_kinds(every, "cluster", kinds):
            unit = f"pipe_lsu_mem_dshared_op_{op}.sum"
            out[f"l1tex__t_requests_{unit}"] = sum(a.requests for a in selected)
            out[f"l1tex__t_sectors_{unit}"] = sum(a.sectors for a in selected)
            out[f"l1tex__t_set_accesses_{unit}"] = sum(a.tags for a in selected)
    copies = {op: kinds for op, kinds in _INSTRUCTIONS.items() if op.startswith("tma")}
    for op, kinds in {**_CLUSTER_OPS, **copies}.items():
        if selected := of_kinds(every, "cluster", kinds):
            name = f"l1tex__m_xbar2l1tex_read_bytes_mem_dshared_op_{op}.sum"
            out[name] = SECTOR * sum(map(_moved, selected))
    return out


def _products(instructions: Sequence[Instruction]) -> dict[str, float]:
    products = [i for i in instructions if is_warpgroup_product(i.opcode) and i.executions]
    if not products:
        return {}
    reads = [a for i in products for a in i.accesses if a.kind == "product load"]
    out: dict[str, float] = {
        "sm__inst_executed_pipe_tensor_op_gmma.sum": sum(i.executions for i in products),
        "smsp__sass_data_bytes_mem_shared_op_gmma.sum": sum(a.bytes for a in reads),
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum": sum(a.wavefronts for a in reads),
    }
    done: Counter[str] = Counter()
    for i in products:
        kind = _PRODUCTS.get(i.work[0].partition(".")[2])
        if kind is not None and not is_sparse(i.opcode):
            done[f"sm__ops_path_tensor_op_{kind}_sparsity_off.sum"] += i.work[1] * i.threads_on
    return {**out, **done}


def _waits(instructions: Sequence[Instruction]) -> dict[str, float]:
    out: dict[str, float] = {}
    if any(waits_at_barrier(i.opcode) for i in instructions):
        out["weft__barrier_waits.sum"] = sum(i.waits for i in instructions)
    if any(i.polls for i in instructions):
        out[POLLS] = sum(i.polls for i in instructions)
    return out
