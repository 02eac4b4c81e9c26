"""Aggregates raw counters per instruction, source line and array."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.layout import Space
from weft.device.sim.tools.counters.counting import LaunchCounts
from weft.device.sim.tools.counters.layout import LINE, SECTOR, SECTOR_BYTES, WRITTEN_AT, CounterRow
from weft.device.sim.tools.counters.lines import LOAD
from weft.device.sim.tools.counters.listing import source_lines
from weft.measure.profile.work import waits_at_barrier, work
from weft.ptx.isa import control_of
from weft.ptx.isa.columns import Control
from weft.values.profile import Access, Array, Instruction, Line

SPACES = {
    Space.GLOBAL: "global", Space.GENERIC: "global", Space.SHARED: "shared", Space.LOCAL: "local",
    Space.CLUSTER: "cluster",
}  # fmt: skip
_Numbers = Sequence[int]
WARPGROUP = 4
"""Warps of a warpgroup."""


def instructions(counts: LaunchCounts) -> tuple[Instruction, ...]:
    """All instructions of the kernel, executed or not, in program order."""
    notes = counts.notes
    words = counts.words.tolist()
    blocks: dict[int, tuple[int, int]] = {}
    guards: dict[int, int] = {}
    waits: dict[int, tuple[int, int]] = {}
    diverged: Counter[int] = Counter()
    accesses: dict[int, list[tuple[Mapping[str, Any], _Numbers]]] = defaultdict(list)
    # Each row of counters belongs to a basic block, a guard, a branch, a test of an mbarrier or a
    # memory access.
    for what in notes["rows"]:
        start = what["at"] // 8
        row = words[start : start + CounterRow.SIZE // 8 + what["places"]]
        if "block" in what:
            times = row[CounterRow.REQUESTS // 8]
            blocks[what["block"]] = times, 32 * times - row[CounterRow.OFF // 8]
        elif "guard" in what:
            guards[what["guard"]] = row[CounterRow.THREADS // 8]
            waits[what["guard"]] = row[CounterRow.REQUESTS // 8], 0
        elif "tested" in what:
            waits[what["tested"]] = row[CounterRow.REQUESTS // 8], row[CounterRow.VAIN // 8]
        elif "diverged" in what:
            diverged[what["diverged"]] += row[CounterRow.REQUESTS // 8]
        else:
            accesses[what["access"]].append((what, row))
    lines = source_lines(notes["lines"])
    out = []
    for index, block, guard, opcode, text, ptx_line, line in notes["instructions"]:
        times, threads = blocks[block]
        out.append(
            Instruction(
                index=index,
                guard=guard,
                opcode=opcode,
                text=text,
                ptx_line=ptx_line,
                line=lines[line] if line >= 0 else None,
                executions=times,
                threads=threads,
                threads_on=guards.get(index, threads),
                diverged=diverged.get(index, 0),
                work=_work(opcode),
                accesses=_merged(_accesses(accesses[index], times, threads))
                if index in accesses
                else (),
                waits=waits.get(index, (times, 0))[0] if waits_at_barrier(opcode) else 0,
                polls=waits.get(index, (0, 0))[1],
            )
        )
    return tuple(sorted(out, key=lambda x: x.index))


@functools.cache
def _work(opcode: str) -> tuple[str, int]:
    return work(opcode.split("."))


def _accesses(
    rows: Sequence[tuple[Mapping[str, Any], _Numbers]], times: int, threads: int
) -> list[Access]:
    """The accesses of an instruction, and what one side of a bulk copy knows of the other.

    A tensor copy shows each line of its box in global memory, and has one request. The sectors that
    a copy brings to shared memory are counted where they come from.
    """
    out = [_access(what, row, times, threads) for what, row in rows]
    near = [n for n, (what, _) in enumerate(rows) if out[n].space == "shared" and what.get("bulk")]
    for n, (what, row) in enumerate(rows):
        if not what.get("bulk") or out[n].space != "global" or not near:
            continue
        (other,) = near
        if what["lines"]:
            whole = out[other]
            out[n] = replace(out[n], requests=whole.requests, threads=whole.threads)
        if out[n].kind == "bulk load":
            arrived = (row, rows[other][1])  # the second has what is filled
            sectors = sum(r[CounterRow.ARRIVED // 8] for r in arrived)
            out[other] = replace(out[other], sectors=sectors)
    return out


def _access(what: Mapping[str, Any], row: _Numbers, times: int, threads: int) -> Access:
    """An access by its row, or by the `times` and the `threads` of its block."""
    width, space = what.get("piece", what["width"]), SPACES[what["space"]]
    bulk = what.get("bulk")
    if "product" in what:
        return _product(what, times, threads)
    if space == "shared" and not bulk:
        return _shared(what, row, times)
    at = dict(zip(_COUNTERS, row, strict=False))
    if bulk:
        return _bulk(what, at, row[CounterRow.BYTES // 8])
    if what["places"]:
        at = _with_ranges(what, at, row[CounterRow.PLACES // 8 :])
    elif what.get("one"):
        if what["whole"]:
            at |= {"REQUESTS": times, "THREADS": threads}
        at |= dict.fromkeys(("SECTORS", "TAGS", "WAVEFRONTS", "IDEAL"), at["REQUESTS"])
    # L1 is write-through: every store and atomic reaches L2.
    if space == "global" and what["route"] != LOAD:
        at["MISSES"] = at["SECTORS"]
    repeats = (
        max(1, width // 4) if space == "local" else 1
    )  # local memory is accessed one word at a time
    return Access(
        space=space,
        kind=what["kind"],
        requests=at["REQUESTS"] * repeats,
        threads=at["THREADS"],
        bytes=at["THREADS"] * width,
        sectors=at["SECTORS"] * repeats,
        sectors_ideal=at["SECTORS"] * repeats if space == "local" else at["IDEAL"],
        sectors_missed=at["MISSES"],
        tags=at["TAGS"] * repeats,
        tag_wavefronts=at["WAVEFRONTS"] if space == "global" else 0,
    )


def _product(what: Mapping[str, Any], times: int, threads: int) -> Access:
    """The operands of products in shared memory: each of the four warps counts a quarter."""
    nbytes = times * what["product"] // WARPGROUP
    return Access(
        space="shared",
        kind=what["kind"],
        requests=times,
        threads=threads,
        bytes=nbytes,
        wavefronts=nbytes >> LINE,
        wavefronts_ideal=nbytes >> LINE,
    )


def _bulk(what: Mapping[str, Any], at: Mapping[str, int], nbytes: int) -> Access:
    """One side of a bulk copy, which bypasses L1 and whose lanes may move different sizes."""
    near = SPACES[what["space"]] == "shared"
    return Access(
        space=SPACES[what["space"]],
        kind=what["kind"],
        requests=at["REQUESTS"],
        threads=at["THREADS"],
        bytes=nbytes,
        sectors=at["SECTORS"],
        sectors_ideal=0 if near else at["IDEAL"],
        sectors_missed=0 if near else at["SECTORS"],
        wavefronts=at["WAVEFRONTS"],
        wavefronts_ideal=at["IDEAL"] if near else 0,
    )


def _with_ranges(what: Mapping[str, Any], at: dict[str, int], places: _Numbers) -> dict[str, int]:
    """Add accesses of full warps to contiguous bytes, counted by the offset of the first byte."""
    span, width, out = what["span"], what["width"], dict(at)
    for i, times in enumerate(places):
        if not times:
            continue
        # Counter i counts accesses whose first byte has the offset i x min(width, 32).
        last = i * min(width, SECTOR_BYTES) + span - 1
        sectors = (last >> SECTOR) - (i * min(width, SECTOR_BYTES) >> SECTOR) + 1
        one = {
            "REQUESTS": 1, "THREADS": 32, "SECTORS": sectors, "TAGS": (last >> LINE) + 1,
            "WAVEFRONTS": 1, "IDEAL": min(sectors, width),
        }  # fmt: skip
        for name, n in one.items():
            out[name] += n * times
    return out


_COUNTERS = ("REQUESTS", "THREADS", "SECTORS", "TAGS", "WAVEFRONTS", "IDEAL", "MISSES", "PARTS")
"""The first words of a row, in the order of `CounterRow`."""
assert [getattr(CounterRow, name) for name in _COUNTERS] == [*range(0, 64, 8)]


def _shared(what: Mapping[str, Any], row: _Numbers, times: int) -> Access:
    """Shared-memory accesses. Full warps have precomputed costs; others were counted."""
    requests, threads, _, _, waves, ideal, _, parts = row[: len(_COUNTERS)]
    executions = 0
    if "costs" in what:
        full = (times,) if what["always"] else row[CounterRow.FULL // 8 : CounterRow.FULL // 8 + 4]
        for n, cost in zip(full, what["costs"], strict=False):
            if n:
                waves, parts, ideal = waves + n * cost[0], parts + n * cost[1], ideal + n * cost[2]
                executions += n
    threads += executions * what.get("lanes", 32)
    return Access(
        space="shared",
        kind=what["kind"],
        requests=requests + executions,
        threads=threads,
        bytes=threads * what.get("piece", what["width"]),
        wavefronts=waves,
        wavefronts_ideal=ideal,
        conflicts=waves - parts,
    )


def _merged(accesses: Sequence[Access]) -> tuple[Access, ...]:
    """Sum accesses per space and kind; drop empty ones."""
    if not accesses:
        return ()
    out: dict[tuple[str, str], Access] = {}
    for a in accesses:
        if a.requests:
            key = a.space, a.kind
            out[key] = out[key] + a if key in out else a
    return tuple(out.values())


def lines(instructions: Sequence[Instruction]) -> tuple[Line, ...]:
    """Counters per source line of the user, including inlined code."""
    groups: dict[tuple[str, int], list[Instruction]] = defaultdict(list)
    quotes: dict[tuple[str, int], str] = {}
    for ins in instructions:
        if ins.line is not None:
            source = ins.line.own
            groups[source.file, source.line].append(ins)
            quotes[source.file, source.line] = source.quote
    return tuple(_line(place, quotes[place], members) for place, members in sorted(groups.items()))


def _line(place: tuple[str, int], quote: str, members: Sequence[Instruction]) -> Line:
    done: Counter[str] = Counter()
    for ins in members:
        unit, operations = ins.work
        done[unit] += operations * ins.threads_on
    branches = [i for i in members if is_branch(i)]
    return Line(
        file=place[0],
        number=place[1],
        quote=quote,
        instructions=tuple(i.index for i in members),
        executions=sum(i.executions for i in members),
        threads=sum(i.threads for i in members),
        threads_on=sum(i.threads_on for i in members),
        branches=sum(i.executions for i in branches),
        diverged=sum(i.diverged for i in branches),
        work={unit: n for unit, n in done.items() if n},
        accesses=_merged([a for i in members for a in i.accesses]),
        waits=sum(i.waits for i in members),
        polls=sum(i.polls for i in members),
    )


def is_branch(ins: Instruction) -> bool:
    """True for a conditional branch or a branch table."""
    where = _control(ins.opcode)
    return where is Control.TABLE or (where is Control.BRANCH and bool(ins.guard))


@functools.cache
def _control(opcode: str) -> Control:
    return control_of(opcode.split("."))


def arrays(counts: LaunchCounts) -> tuple[Array, ...]:
    """The allocations that the launch accessed, in the order of its arguments."""
    out = []
    sectors = counts.sectors
    for region in counts.regions:
        # A region starts at a multiple of four lines, and its last four are its own.
        part = sectors[region.first // 4 : -(-(region.first + region.lines) // 4)]
        written = part >> np.uint32(WRITTEN_AT)
        parts = (part, written, part | written)
        read, wrote, touched = (min(32 * _sectors(x), region.nbytes) for x in parts)
        if touched:
            out.append(Array(region.name, region.nbytes, read, wrote, touched))
    return tuple(out)


def _sectors(lines: NDArray[np.uint32]) -> int:
    """The number of set bits in the lower half of each byte: one bit per sector."""
    return int(np.bitwise_count(lines & np.uint32(0x0F0F0F0F)).sum(dtype=np.int64))
