"""From a function of a module to a program: linked, decoded, its variables placed, analysed."""

from __future__ import annotations

from weft.device.base import Dim3
from weft.device.sim.analyse import deferred_nan, divergence, hammocks, special_copies, validate
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import awaits_warpgroup, is_block_barrier, is_warp_sync
from weft.ptx import isa
from weft.ptx.contract import contract
from weft.ptx.link import link
from weft.ptx.model import Label, Operand, PtxFunction, PtxModule, Special
from weft.ptx.normalise import normalise
from weft.ptx.shared_variables import shared_variables


def prepare(
    module: PtxModule, function: PtxFunction, shape: Dim3, *, scheduled: bool = False
) -> KernelProgram:
    """Link, decode, build the graph, and run the analyses to their fixed point."""
    validate.check(module, function)
    function = contract(normalise(link(module, function), is_block_barrier))
    program = KernelProgram(module, function, shape, scheduled=scheduled)
    _place_variables(program)
    _decode(program)
    special_copies.replace_reads(program)
    if scheduled:
        from weft.device.sim.analyse import switches

        program.switches = frozenset(switches.of_warps(program))
    code = (x for x in program.function.body if not isinstance(x, Label))
    program.awaits = frozenset(ins.index for ins in code if awaits_warpgroup(ins))
    divergence.analyse(program, program.is_cut)
    if scheduled and _find_switches(program):
        divergence.analyse(program, program.is_cut)
    blocks = program.graph.blocks
    if any(is_warp_sync(i) for x in program.scattered for i in blocks[x].code):
        # lanes must be able to wait there for each other
        divergence.analyse(program, lambda i: program.is_cut(i) or is_warp_sync(i))
    cuts = program.switches | program.awaits | program.holds
    program.hammocks = hammocks.find(program.graph, program.divergent, cuts)
    deferred_nan.find(program)
    program.settled = True
    return program


def _find_switches(program: KernelProgram) -> bool:
    """Find where lanes may part, and which stores may be delayed; return whether there are any."""
    from weft.device.sim.analyse import delays, switches

    parts = switches.of_lanes(program)
    program.parts, program.switches = frozenset(parts), program.switches | parts
    program.delayed, program.holds = map(frozenset, delays.find(program))
    return bool(parts or program.holds)


def _place_variables(program: KernelProgram) -> None:
    """Compute the offset of every variable inside its space, and of the dynamic shared memory.

    Variables of the module's own memory have theirs in the table of addresses that `image` makes.
    """
    module, function = program.module, program.function
    placed = [v.name for v in module.variables.values() if v.space in ("global", "const")]
    for i, name in enumerate(placed):
        program.symbols[name] = (module.variables[name].space, 8 * i)
    ends = {"shared": 0, "local": 0}
    dynamic = []
    align = 16  # the widest access of a lane
    local = [v for v in function.variables.values() if v.space == "local"]
    for v in [*shared_variables(module, [function]), *local]:
        if v.unsized and v.space == "shared":
            dynamic.append(v.name)
            align = max(align, v.align)
            continue
        start = -(-ends[v.space] // v.align) * v.align
        program.symbols[v.name] = (v.space, start)
        ends[v.space] = start + v.size
    # Dynamic shared memory follows. Compilers use the alignment that its arrays declare: they
    # compute `base + 16` as `base | 16`.
    program.shared_bytes = -(-ends["shared"] // align) * align
    program.local_bytes = -(-ends["local"] // 16) * 16
    # All `extern __shared__` arrays start at the same place, as in CUDA.
    for name in dynamic:
        program.symbols[name] = ("shared", program.shared_bytes)
    for p in function.params:
        program.symbols[p.name] = ("param", p.offset)


def _decode(program: KernelProgram) -> None:
    code = [x for x in program.function.body if not isinstance(x, Label)]
    for index, ins in enumerate(code):
        ins.index = index
        decoded = isa.lookup(ins.parts)
        if decoded is None:
            raise validate.unsupported(ins)
        program.decoded[index] = decoded
        program.clusters |= decoded.names_peers or any(map(_of_cluster, ins.operands))


def _of_cluster(operand: Operand) -> bool:
    """Return whether it is a special register of the cluster."""
    return isinstance(operand, Special) and "cluster" in operand.name
