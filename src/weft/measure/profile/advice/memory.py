"""Advice on memory: coalescing, reuse, vector loads, bank conflicts, atomics, spills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.measure.profile import floor
from weft.measure.profile.advice.rule import Rule, RuleContext, at
from weft.measure.profile.cliffs import fit
from weft.measure.profile.latency import L2_CLOCKS
from weft.measure.profile.work import is_multiply_add
from weft.values.analysis import Advice
from weft.values.profile import Access, Line

_WIDE = 1.25
"""Ratio of sectors to the ideal above which an access is uncoalesced."""
_CONFLICTS = 1.5
_REUSED = 4.0
_TILED, _TILE = 2.0, 4
"""FMAs per shared load below which register tiling helps, and the side of the suggested tile."""
_DRAM_LIMITED = 0.9
_ATOMICS = ("atomic", "reduction")
_LOADS = ("load", "copy", "fragment load")


def coalescing(f: RuleContext) -> Iterator[Advice]:
    """Uncoalesced accesses: lanes of a warp with scattered addresses."""
    for line in f.p.lines:
        plain = [a for a in line.accesses if a.kind in ("load", "store", "copy")]
        scattered = [
            a for a in plain if a.space == "global" and a.sectors > _WIDE * a.sectors_ideal
        ]
        if not scattered:
            continue
        spared = [(a, 1 - a.sectors_ideal / a.sectors) for a in scattered]
        requests, sectors, ideal, asked = (
            sum(getattr(a, name) for a in scattered)
            for name in ("requests", "sectors", "sectors_ideal", "bytes")
        )
        yield Advice(
            "coalescing",
            f"{' and '.join(f'{a.kind}s' for a in scattered)} take {sectors / requests:.3g} "
            f"sectors a request, {ideal / requests:.3g} would do: {requests:,} requests use "
            f"{100 * asked / (32 * sectors):.3g} % of the bytes that they look up",
            "let neighbouring threads touch neighbouring addresses: index with threadIdx.x last, "
            "transpose through shared memory, or make an array of structures one of arrays",
            f.gain(
                l1=sum(part * floor.lsu_steps(a) for a, part in spared),
                l2=sum(32 * part * floor.l2_sectors(a) for a, part in spared),
                dram=sum(_dram_of(f, a, part) for a, part in spared),
            ),
            *at(line),
        )


def _dram_of(f: RuleContext, a: Access, part: float) -> float:
    """DRAM bytes that are moved but never requested by a lane."""
    asked = sum(x.bytes for x in floor.accesses(f.p, "global"))
    spare = max(0.0, floor.dram_bytes(f.p) - asked)
    return min(spare, part * 32 * floor.l2_sectors(a))


def reuse(f: RuleContext) -> Iterator[Advice]:
    """Bytes that are read repeatedly from L2 or DRAM."""
    reads = [(line, a) for line, a in f.accesses("global", *_LOADS)]
    touched = sum(x.read for x in f.p.arrays)
    asked = sum(a.bytes for _, a in reads)
    # A few repeated reads are served by L1.
    if not touched or asked < _REUSED * touched:
        return
    line = max(reads, key=lambda pair: pair[1].bytes)[0]
    through = 32 * sum(a.sectors_missed for _, a in reads)
    again = f.p.totals["sim:dram__bytes_read.sum"] - touched
    steps = sum(floor.lsu_steps(a) for _, a in reads)
    gain = f.gain(
        l1=steps * (1 - touched / asked), l2=max(0.0, through - touched), dram=max(0.0, again)
    )
    yield Advice(
        "tiling and reuse",
        f"each byte read is asked for {asked / touched:.3g} times and comes from L2 "
        f"{through / touched:.3g} times; this line asks for most",
        "load a tile into shared memory once and use it from there, and let each thread compute "
        "several results from values that it keeps in registers",
        gain,
        *at(line),
    )


def register_tiling(f: RuleContext) -> Iterator[Advice]:
    """Shared memory that is read for every FMA."""
    loads = list(f.accesses("shared", "load"))
    steps = sum(a.wavefronts for _, a in loads)
    fused = sum(i.executions for i in f.p.instructions if is_multiply_add(i.opcode))
    requests = sum(a.requests for _, a in loads)
    near = f.unit("L1 and shared memory")
    if not fused or f.bound != near.name or fused >= _TILED * requests or steps < near.work / 2:
        return
    line = max(loads, key=lambda pair: pair[1].wavefronts)[0]
    yield Advice(
        "register tiling",
        f"{requests:,} loads of shared memory for {fused:,} multiply-adds of warps: the arithmetic "
        f"waits for {steps:,} wavefronts",
        f"let each thread compute {_TILE} x {_TILE} results, so that a value that it has loaded is "
        f"used {_TILE} times from a register",
        f.gain(l1=steps * (1 - 1 / _TILE)),
        *at(line),
    )


def vector_loads(f: RuleContext) -> Iterator[Advice]:
    """Too few bytes in flight to cover memory latency, and accesses that could be wider."""
    if f.bound not in ("DRAM", "L2"):
        return
    loads = [
        (line, a)
        for line, a in f.accesses("global", "load")
        if a.bytes <= 4 * a.threads and a.sectors <= _WIDE * a.sectors_ideal
    ]
    if not loads:
        return
    line, most = max(loads, key=lambda pair: pair[1].bytes)
    concurrent = sum(
        1
        for i in f.p.instructions
        for a in i.accesses
        if a.space == "global" and a.kind == "load" and a.requests >= most.requests
    )
    gpu, width = f.gpu, most.bytes / most.threads
    warps = fit(f.p.launch, gpu).warps
    # Little's law: bytes in flight = bandwidth x latency.
    flying = warps * 32 * width * max(1, concurrent)
    clocks = floor.DRAM_CLOCKS if f.bound == "DRAM" else L2_CLOCKS
    needed = f.unit(f.bound).per_second * clocks / (gpu.boost_mhz * 1e6) / gpu.sms
    if flying >= needed:
        return
    yield Advice(
        "vector loads",
        f"each thread loads {width:g} bytes at a time: {warps} warps of an SM have "
        f"{flying:,.0f} bytes on the way, and {needed:,.0f} are needed to keep {f.bound} busy",
        "load float4 (16 bytes a thread, aligned), or several elements before the first is used",
        min(needed / flying, 16 / width),
        *at(line),
    )


def bank_conflicts(f: RuleContext) -> Iterator[Advice]:
    """Lanes that access different words of one bank."""
    for line, a in f.accesses("shared"):
        # The data decides which words atomics update: no layout avoids their conflicts.
        if a.kind in _ATOMICS or a.wavefronts <= _CONFLICTS * a.wavefronts_ideal:
            continue
        yield Advice(
            "bank conflicts",
            f"{a.kind}s of shared memory take {a.wavefronts / a.requests:.3g} wavefronts a "
            f"request, {a.wavefronts_ideal / a.requests:.3g} would do; {a.conflicts:,} conflicts",
            "pad the rows (tile[32][33]), or swizzle the column with the row: col ^ row",
            f.gain(l1=a.wavefronts - a.wavefronts_ideal),
            *at(line),
        )


def shared_atomics(f: RuleContext) -> Iterator[Advice]:
    """Atomics of a warp that update one word of shared memory, or words of one bank."""
    for line, a in f.accesses("shared", *_ATOMICS):
        if a.wavefronts <= _CONFLICTS * a.wavefronts_ideal:
            continue
        yield Advice(
            "shared atomics",
            f"{a.kind}s of shared memory take {a.wavefronts / a.requests:.3g} wavefronts a "
            f"request, {a.wavefronts_ideal / a.requests:.3g} would do: lanes of a warp update the "
            "same words, or words of one bank, as the data has it",
            "give each warp a copy of its own, or several copies to the lanes "
            "(bin * copies + lane % copies), and add the copies at the end; or let one lane add "
            "for all with the same word (__match_any_sync, __popc)",
            f.gain(l1=a.wavefronts - a.wavefronts_ideal),
            *at(line),
        )


def privatisation(f: RuleContext) -> Iterator[Advice]:
    """Contended atomics: many threads on few addresses."""
    unit = f.unit("atomics")
    atomics = list(f.accesses("global", *_ATOMICS))
    if not atomics or unit.seconds < 0.5 * floor.seconds(f.units):
        return
    line, a = max(atomics, key=lambda pair: pair[1].threads)
    # Atomics read and write a word, so words that were only read or written do not count.
    words = max(1, sum(min(x.read, x.written) // 4 for x in f.p.arrays))
    if a.threads < 8 * words:
        return
    left = f.p.launch.blocks * min(words, f.p.launch.threads)
    yield Advice(
        "privatisation",
        f"{a.threads:,} atomic operations on about {words:,} words: each is updated "
        f"{a.threads / words:,.0f} times, one after the other",
        "let each block collect in shared memory (or each warp reduce with shuffles first), and "
        "add its sums to global memory once",
        f.gain(atomics=max(0, a.threads - left)),
        *at(line),
    )


def spills(f: RuleContext) -> Iterator[Advice]:
    """Register spills, and arrays in local memory."""
    shape = f.p.launch
    spilled = (shape.spill_stores or 0) + (shape.spill_loads or 0)
    local = list(f.accesses("local"))
    warps = shape.blocks * -(-shape.threads // 32)
    if spilled:
        yield Advice(
            "spills",
            f"a thread has {shape.registers} registers and spills: {shape.spill_stores} bytes of "
            f"stores, {shape.spill_loads} of loads in its code",
            "ask for fewer blocks in __launch_bounds__, or let a thread hold less at a time",
            _worse(f, warps * spilled / 4),
        )
    if local:
        line, a = max(local, key=lambda pair: pair[1].sectors)
        steps = sum(floor.lsu_steps(x) for _, x in local)
        moved = 32 * sum(floor.l2_sectors(x) for _, x in local)
        yield Advice(
            "spills",
            f"{a.kind}s of local memory: {a.requests:,} requests of an array that is not in "
            "registers",
            "index it with constants (unroll the loop), or put it into shared memory",
            f.gain(l1=steps, l2=moved),
            *at(line),
        )


def _worse(f: RuleContext, steps: float) -> float:
    """The slow-down by spills, which the assembler adds and the simulator does not count."""
    busy = f.unit("L1 and shared memory").seconds + steps / f.clocks
    least = floor.seconds(f.units)
    return max(least, busy) / least if least else 1.0


def memory_bound(f: RuleContext) -> Iterator[Advice]:
    """DRAM traffic is near the compulsory minimum: only smaller data or fewer passes help."""
    moved, must = floor.dram_bytes(f.p), floor.compulsory_bytes(f.p)
    if f.bound != "DRAM" or not must or _DRAM_LIMITED * moved > must:
        return
    work = floor.work(f.p)
    if not work.get("fp32") or work.get("fp16"):
        return
    line = _busiest(f)
    yield Advice(
        "memory-bound",
        f"{must:,} bytes must be moved, and DRAM moves {moved:,.0f}: nothing is fetched twice, "
        "and the arithmetic waits for it",
        "store 16-bit types (f16, bf16) and compute in f32, or fuse this kernel with the one "
        "that reads its output, which saves writing and reading it",
        f.gain(dram=moved / 2),
        *at(line),
    )


def _busiest(f: RuleContext) -> Line | None:
    moved = [(a.bytes, line) for line, a in f.accesses("global")]
    return max(moved, key=lambda pair: pair[0])[1] if moved else None


RULES: Mapping[str, Rule] = {
    "coalescing": coalescing,
    "tiling and reuse": reuse,
    "register tiling": register_tiling,
    "vector loads": vector_loads,
    "bank conflicts": bank_conflicts,
    "shared atomics": shared_atomics,
    "privatisation": privatisation,
    "spills": spills,
    "memory-bound": memory_bound,
}
