"""Computes the counters of a whole launch, with ncu's names for equal quantities.

A `ptx__` counter counts PTX where ncu counts SASS. The two differ, because the assembler merges,
moves and predicates instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from weft.measure.profile import unit_metrics
from weft.measure.profile.aggregate import is_branch
from weft.measure.profile.traffic import Traffic
from weft.measure.profile.unit_metrics import of_kinds
from weft.values.profile import BULK, Access, Instruction

_GLOBAL_OPS = {"ld": ("load", "copy", "fragment load"), "st": ("store", "fragment store"),
               "atom": ("atomic",), "red": ("reduction",)}  # fmt: skip
_SHARED_OPS = {
    "ld": ("load", "matrix load", "fragment load"),
    "st": ("store", "matrix store", "fragment store"),
    "atom": ("atomic", "reduction"),
}
_L2_OPS = {"write": (*_GLOBAL_OPS["st"], "bulk store"), "atom": ("atomic",),
           "red": ("reduction", "bulk reduction")}  # fmt: skip
_STAGES: Mapping[str, Callable[[Access], int]] = {
    "requests": lambda a: a.requests,
    "sectors": lambda a: a.sectors,
    "set_accesses": lambda a: a.tags,
    "output_wavefronts": lambda a: a.tag_wavefronts,
}
MODELLED = frozenset(
    f"sim:{name}"
    for name in (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum",
        "l1tex__m_xbar2l1tex_read_sectors.sum",
        "lts__t_sectors_srcunit_tex_op_write.sum",
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
    )
)


def modelled(totals: Mapping[str, float]) -> frozenset[str]:
    """The names among these that are estimates."""
    return MODELLED | ({f"sim:{unit_metrics.POLLS}"} & totals.keys())


def totals(instructions: Sequence[Instruction], traffic: Traffic) -> dict[str, float]:
    """Name -> value, grouped by topic."""
    out: dict[str, float] = {}
    branches = [i for i in instructions if is_branch(i)]
    out["ptx__inst_executed.sum"] = sum(i.executions for i in instructions)
    out["ptx__thread_inst_executed.sum"] = sum(i.threads for i in instructions)
    out["ptx__thread_inst_executed_pred_on.sum"] = sum(i.threads_on for i in instructions)
    out["ptx__branch_targets.sum"] = sum(i.executions for i in branches)
    out["ptx__branch_targets_threads_divergent.sum"] = sum(i.diverged for i in branches)
    # Sorted, so that records of equal launches are equal.
    for unit, n in sorted(_work(instructions).items()):
        out[f"ptx__ops_{unit}.sum"] = n
    accesses = [a for i in instructions for a in i.accesses]
    _global(out, accesses)
    _shared(out, accesses)
    out |= unit_metrics.totals(instructions, accesses)
    out["dram__bytes_read.sum"] = traffic.first + traffic.again
    out["dram__bytes_write.sum"] = traffic.written
    return {f"sim:{name}": value for name, value in out.items()}


def _work(instructions: Sequence[Instruction]) -> Counter[str]:
    done: Counter[str] = Counter()
    for ins in instructions:
        done[ins.work[0]] += ins.work[1] * ins.threads_on
    return done


def _global(out: dict[str, float], accesses: Sequence[Access]) -> None:
    for op, kinds in _GLOBAL_OPS.items():
        selected = of_kinds(accesses, "global", kinds)
        for stage, count in _STAGES.items():
            name = f"l1tex__t_{stage}_pipe_lsu_mem_global_op_{op}.sum"
            out[name] = sum(count(a) for a in selected)
    loads = of_kinds(accesses, "global", _GLOBAL_OPS["ld"])
    sectors, missed = sum(a.sectors for a in loads), sum(a.sectors_missed for a in loads)
    name = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup"
    out[f"{name}_hit.sum"], out[f"{name}_miss.sum"] = sectors - missed, missed
    for op, kind in (("ld", "load"), ("st", "store")):
        selected = of_kinds(accesses, "local", [kind])
        for stage in ("requests", "sectors", "set_accesses"):
            name = f"l1tex__t_{stage}_pipe_lsu_mem_local_op_{op}.sum"
            out[name] = sum(_STAGES[stage](a) for a in selected)
    every = [a for a in accesses if a.space == "global"]
    out["smsp__sass_data_bytes_mem_global.sum"] = sum(a.bytes for a in every)
    out["l1tex__m_xbar2l1tex_read_sectors.sum"] = (
        missed + unit_metrics.arrived_sectors(accesses) + unit_metrics.cluster_sectors(accesses)
    )
    for op, kinds in _L2_OPS.items():
        selected = of_kinds(accesses, "global", kinds)
        out[f"lts__t_sectors_srcunit_tex_op_{op}.sum"] = sum(a.sectors for a in selected)
    local_stores = sum(a.sectors for a in of_kinds(accesses, "local", ["store"]))
    out["lts__t_sectors_srcunit_tex_op_write.sum"] += (
        local_stores  # L1 is write-through for local memory as well
    )


def _shared(out: dict[str, float], accesses: Sequence[Access]) -> None:
    for op, kinds in _SHARED_OPS.items():
        selected = of_kinds(accesses, "shared", kinds)
        pipe = f"mem_shared_op_{op}.sum"
        out[f"l1tex__data_pipe_lsu_wavefronts_{pipe}"] = sum(a.wavefronts for a in selected)
        out[f"l1tex__data_bank_conflicts_pipe_lsu_{pipe}"] = sum(a.conflicts for a in selected)
    # An atomic operation on another block's memory takes one of the own data stage.
    across = of_kinds(accesses, "cluster", _SHARED_OPS["atom"])
    out["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum"] += sum(a.requests for a in across)
    # ncu leaves out what the copy engine does.
    every = [a for a in accesses if a.space == "shared" and a.kind not in BULK]
    out["memory_l1_wavefronts_shared"] = sum(a.wavefronts for a in every)
    out["memory_l1_wavefronts_shared_ideal"] = sum(a.wavefronts_ideal for a in every)
    out["smsp__sass_data_bytes_mem_shared.sum"] = sum(a.bytes for a in every)
