"""Groups the metrics of a profile into sections, with ncu's names.

The id of a metric is ncu's with the prefix `sim:` for equal quantities, and starts with `weft__` if
ncu has none. `modelled` metrics come from a model of caches or time; all others are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.device.models import GpuModel
from weft.measure.profile import floor
from weft.measure.profile.cliffs import cliffs, fit
from weft.measure.profile.roofline import roofline
from weft.measure.profile.unit_metrics import MULTICAST, POLLS
from weft.values.analysis import Metric, Section
from weft.values.profile import Access, Profile


def sections(p: Profile, gpu: GpuModel) -> tuple[Section, ...]:
    """All sections, in ncu's order."""
    return tuple(make(p, gpu) for make in _SECTIONS)


def waves(p: Profile, gpu: GpuModel) -> float:
    """The number of waves: blocks over the blocks that the GPU holds at once."""
    return p.launch.blocks / max(1, fit(p.launch, gpu).blocks * gpu.sms)


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def _sum(accesses: Sequence[Access], what: Callable[[Access], float]) -> float:
    return sum(what(a) for a in accesses)


def _speed(p: Profile, gpu: GpuModel) -> Section:
    units, roof = floor.units(p, gpu), roofline(p, gpu)
    longest, used = floor.seconds(units), floor.busy_sms(p, gpu)
    of_memory = {"DRAM", "L2", "L1 and shared memory", "atomics"}
    # As in ncu, idle SMs count: a share is one of the whole GPU's rate.
    busy = {u.name: 100 * u.part * _ratio(u.seconds, longest) for u in floor.throughput(units)}
    shares = dict(sorted(busy.items(), key=lambda item: -item[1]))
    memory = max((v for n, v in shares.items() if n in of_memory), default=0.0)
    compute = max((v for n, v in shares.items() if n not in of_memory), default=0.0)
    name = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
    rows = [
        Metric(f"sim:{name}", "Memory Throughput", memory, "%", True),
        Metric(
            "sim:sm__throughput.avg.pct_of_peak_sustained_elapsed",
            "Compute (SM) Throughput", compute, "%", True,
        ),
        *(Metric(f"sim:weft__busy_{n.replace(' ', '_')}.pct", f"busy: {n}", v, "%", True)
          for n, v in shares.items()),
        Metric("sim:weft__sms_used.pct", "SMs with work", 100 * used / gpu.sms, "%"),
        Metric("sim:weft__warps_used.pct", "Warps that the GPU holds, of its most",
               100 * _resident_warps(p, gpu) / (gpu.sms * gpu.max_warps_per_sm), "%"),
        Metric("sim:weft__latency_seconds", "Latency: a warp's own instructions",
               next((u.seconds for u in units if u.name == floor.LATENCY), 0.0), "s", True),
        Metric("sim:weft__bound_seconds", "Least time of the launch", longest, "s", True),
        Metric("sim:weft__floor_seconds", "Floor: work, compulsory bytes", roof.floor, "s", True),
    ]  # fmt: skip
    if p.measured is not None:
        rows.append(Metric("gpu__time_duration.sum", "Duration, measured", p.measured, "s"))
    says = _bound_by(roof.bound, used, gpu) if units else "Nothing ran."
    return Section("GPU Speed Of Light Throughput", tuple(rows), says)


def _bound_by(bound: str, used: int, gpu: GpuModel) -> str:
    says = f"Bound by {bound}: units are shown as part of this time on {gpu.name}."
    if bound == floor.LATENCY:
        says += " No unit is busy: warps wait for their own results, and there are too few of them."
    if used < gpu.sms:
        says += f" {used} of {gpu.sms} SMs {'has' if used == 1 else 'have'} work."
    return says


def _resident_warps(p: Profile, gpu: GpuModel) -> int:
    """Warps that are on the GPU at once."""
    blocks = min(p.launch.blocks, fit(p.launch, gpu).blocks * gpu.sms)
    return blocks * -(-p.launch.threads // gpu.warp_size)


def _compute(p: Profile, gpu: GpuModel) -> Section:
    of = p.totals
    executed = of["sim:ptx__inst_executed.sum"]
    rows = [Metric("sim:ptx__inst_executed.sum", "Executed PTX instructions (warps)", executed)]
    for unit, n in sorted(floor.work(p).items(), key=lambda item: -item[1]):
        rows.append(Metric(f"sim:ptx__ops_{unit}.sum", f"Operations: {unit}", n))
    # Arithmetic pipes only: memory units have their own section.
    mix = {u.name: u for u in floor.units(p, gpu) if u.measure == "operations"}
    busiest = max(mix.values(), key=lambda u: u.seconds, default=None)
    says = f"The busiest pipe is {busiest.name}." if busiest else ""
    return Section("Compute Workload Analysis", tuple(rows), says)


def _memory(p: Profile, gpu: GpuModel) -> Section:
    of, far = p.totals, floor.accesses(p, "global")
    rows = []
    for op, words in (("ld", "loads"), ("st", "stores")):
        base = "pipe_lsu_mem_global_op_" + op
        requests = of[f"sim:l1tex__t_requests_{base}.sum"]
        sectors = of[f"sim:l1tex__t_sectors_{base}.sum"]
        if requests:
            name = f"sim:l1tex__average_t_sectors_per_request_{base}.ratio"
            rows += [
                Metric(f"sim:l1tex__t_requests_{base}.sum", f"Global {words}: requests", requests),
                Metric(f"sim:l1tex__t_sectors_{base}.sum", f"Global {words}: sectors", sectors),
                Metric(name, f"Global {words}: sectors a request", sectors / requests),
            ]
    hit = "sim:l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup"
    looked = of[f"{hit}_hit.sum"] + of[f"{hit}_miss.sum"]
    if looked:
        rate = 100 * of[f"{hit}_hit.sum"] / looked
        name = "sim:l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct"
        rows.append(Metric(name, "L1 hit rate", rate, "%", True))
    rows += [
        Metric("sim:weft__bytes_asked.sum", "Global bytes asked for",
               _sum(far, lambda a: a.bytes), "byte"),
        Metric("sim:weft__bytes_compulsory.sum", "Bytes touched at least once",
               floor.compulsory_bytes(p), "byte"),
        Metric("sim:weft__bytes_l2.sum", "Bytes between L1 and L2",
               floor.l2_bytes(p), "byte", True),
        *(Metric(f"sim:dram__bytes_{w}.sum", f"DRAM bytes {words}", of[f"sim:dram__bytes_{w}.sum"],
                 "byte", True) for w, words in (("read", "read"), ("write", "written"))),
    ]  # fmt: skip
    rows += _of_units(p)
    near = of["sim:memory_l1_wavefronts_shared"]
    if near:
        ideal = of["sim:memory_l1_wavefronts_shared_ideal"]
        rows += [
            Metric("sim:memory_l1_wavefronts_shared", "Shared memory: wavefronts", near),
            Metric("sim:memory_l1_wavefronts_shared_ideal", "Shared memory: ideal", ideal),
        ]
        conflicts = _sum(floor.accesses(p, "shared"), lambda a: a.conflicts)
        name = "sim:l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
        rows.append(Metric(name, "Shared memory: bank conflicts", conflicts))
    wide = _ratio(_sum(far, lambda a: 32 * a.sectors), _sum(far, lambda a: 32 * a.sectors_ideal))
    says = f"Global accesses look up {wide:.3g} times the sectors they need." if wide > 1.05 else ""
    return Section("Memory Workload Analysis", tuple(rows), says)


_ARRIVE = "sim:l1tex__m_xbar2l1tex_read_bytes_mem"
_UNITS = (
    ("sim:weft__data_bytes_mem_global_op_tma_ld.sum", "TMA: bytes loaded"),
    (f"{_ARRIVE}_global_op_tma_ld.sum", "TMA: bytes that arrive at SMs"),
    ("sim:l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum", "TMA: bytes stored"),
    ("sim:l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_red.sum", "TMA: bytes reduced"),
    (f"sim:{MULTICAST}", "Multicast: bytes that arrive at SMs"),
    ("sim:weft__data_bytes_mem_dshared.sum", "Distributed shared memory: bytes"),
    (f"{_ARRIVE}_dshared_op_ld.sum", "Distributed shared memory: loaded"),
    (f"{_ARRIVE}_dshared_op_st.sum", "Distributed shared memory: stored"),
    (f"{_ARRIVE}_dshared_op_atom.sum", "Distributed shared memory: atomics"),
    (f"{_ARRIVE}_dshared_op_redas.sum", "Distributed shared memory: red.async"),
    (f"{_ARRIVE}_dshared_op_tma_st.sum", "Distributed shared memory: copied"),
    (f"{_ARRIVE}_dshared_op_tma_red.sum", "Distributed shared memory: reduced"),
)
"""Bytes by the copy engine and between the blocks of a cluster; those that arrive are sectors."""


def _of_units(p: Profile) -> list[Metric]:
    """The rows of units that the kernel uses."""
    used = [(name, label) for name, label in _UNITS if p.totals.get(name)]
    return [Metric(name, label, p.totals[name], "byte") for name, label in used]


def _launch(p: Profile, gpu: GpuModel) -> Section:
    s, count = p.launch, waves(p, gpu)
    full = max(1, fit(s, gpu).blocks * gpu.sms)
    rows = [
        Metric("sim:launch__grid_size", "Grid Size (blocks)", s.blocks),
        Metric("sim:launch__block_size", "Block Size (threads)", s.threads),
        Metric("sim:launch__thread_count", "Threads", s.blocks * s.threads),
        Metric("sim:launch__registers_per_thread", "Registers Per Thread",
               s.registers if s.registers is not None else "not known: it was not assembled"),
        Metric("sim:launch__shared_mem_per_block_static", "Static Shared Memory",
               s.static_shared, "byte"),
        Metric("sim:launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory",
               s.dynamic_shared, "byte"),
        Metric("sim:launch__waves_per_multiprocessor", "Waves Per SM", count),
        *([Metric("sim:weft__spill_bytes", "Spilled: stores + loads of a thread",
                  s.spill_stores + (s.spill_loads or 0), "byte")]
          if s.spill_stores is not None else []),
        *([Metric("sim:weft__launches", "Launches, counters are their sum", p.launches)]
          if p.launches > 1 else []),
    ]  # fmt: skip
    tail = s.blocks % full
    says = f"The GPU holds {full:,} blocks at once; the last wave has {tail or full:,}."
    return Section("Launch Statistics", tuple(rows), says)


def _occupancy(p: Profile, gpu: GpuModel) -> Section:
    o = fit(p.launch, gpu)
    rows = [
        Metric("sim:sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy",
               100 * o.fraction, "%"),
        Metric("sim:sm__warps_active.max", "Theoretical Active Warps per SM", o.warps),
        *(Metric(f"sim:launch__occupancy_limit_{name.replace(' ', '_')}", f"Block Limit: {name}", n)
          for name, n in o.limits.items()),
        Metric("sim:weft__occupancy_limiter", "Limited by", ", ".join(o.limiter)),
    ]  # fmt: skip
    steps = [str(c) for c in cliffs(p.launch, gpu)]
    blocks = "1 block" if o.blocks == 1 else f"{o.blocks} blocks"
    says = f"{blocks} an SM, limited by {' and '.join(o.limiter)}."
    return Section(
        "Occupancy", tuple(rows), " ".join([says, *(f"{s[0].upper()}{s[1:]}." for s in steps)])
    )


_BARRIERS = (
    ("sim:weft__barrier_waits.sum", "Barrier Waits (warps)"),
    (f"sim:{POLLS}", "Tests of mbarriers in vain"),
)


def _source(p: Profile, gpu: GpuModel) -> Section:
    of = p.totals
    branches = of["sim:ptx__branch_targets.sum"]
    split = of["sim:ptx__branch_targets_threads_divergent.sum"]
    executed = of["sim:ptx__inst_executed.sum"]
    lanes = _ratio(of["sim:ptx__thread_inst_executed.sum"], executed)
    rows = [
        Metric("sim:ptx__branch_targets.sum", "Branch Instructions", branches),
        Metric("sim:ptx__branch_targets_threads_divergent.sum", "Divergent Branches", split),
        Metric("sim:smsp__sass_branch_targets_threads_uniform.pct", "Branch Efficiency",
               100 * (1 - _ratio(split, branches)), "%"),
        Metric("sim:smsp__thread_inst_executed_per_inst_executed.ratio",
               "Active Threads Per Warp", lanes),
        *(Metric(name, label, of[name], modelled=name in p.modelled)
          for name, label in _BARRIERS if of.get(name)),
    ]  # fmt: skip
    hot = max(p.lines, key=lambda line: line.executions, default=None)
    says = ""
    if hot is not None and executed:
        part = 100 * hot.executions / executed
        says = f"{part:.0f} % of all instructions are of line {hot.number}: {hot.quote.strip()}"
    return Section("Source Counters", tuple(rows), says)


_SECTIONS: tuple[Callable[[Profile, GpuModel], Section], ...] = (
    _speed, _compute, _memory, _launch, _occupancy, _source,
)  # fmt: skip
