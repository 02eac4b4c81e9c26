"""A kernel for one block shape: its operands, and the forms of what it reads and computes.

`prepare` makes it, `divergence` fills in which lanes run where, `emit` turns it into code.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from weft.device.base import Dim3
from weft.device.sim.analyse import lattice
from weft.device.sim.analyse.form import (
    SOME_UNIFORM,
    STRIPED,
    UNIFORM,
    Form,
    affine,
    constant,
    truncated,
    vector,
)
from weft.device.sim.analyse.hammocks import Hammocks
from weft.device.sim.analyse.result_form import (
    INTEGERS,
    WARP_FORMS,
    bits_of,
    convert,
    widening_product,
)
from weft.device.sim.analyse.special import cluster_address, special_form
from weft.ptx import cfg, isa
from weft.ptx.cfg import Graph
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import (
    Imm,
    Instruction,
    Mem,
    Not,
    Operand,
    Pair,
    PtxFunction,
    PtxModule,
    Reg,
    Special,
    Sym,
    Vec,
)
from weft.records import dataclass

CARRY = "%cc"
INDEX_TYPES = ("b32", "u32", "s32")
"""Registers that may be striped."""
PLAIN = INTEGERS | {"pred"}
"""Operand types of the rows whose results may keep structure."""


@dataclass(slots=True)
class KernelProgram:
    """One kernel for one block shape."""

    module: PtxModule
    function: PtxFunction
    shape: Dim3
    decoded: dict[int, isa.Decoded] = field(default_factory=dict)
    graph: Graph = field(default_factory=lambda: Graph([], [], [], {}))
    forms: dict[str, Form] = field(default_factory=dict)
    divergent: set[int] = field(default_factory=set)
    partial: list[bool] = field(default_factory=list)
    waiting: list[set[int]] = field(default_factory=list)
    blend: list[set[str]] = field(default_factory=list)
    raw_nan: set[str] = field(default_factory=set)
    scattered: set[int] = field(default_factory=set)
    regions: dict[int, set[int]] = field(default_factory=dict)
    """Divergent branch -> the blocks that run with part of the warp, or where lanes wait."""
    hammocks: Hammocks = field(default_factory=Hammocks)
    symbols: dict[str, tuple[str, int]] = field(default_factory=dict)
    shared_bytes: int = 0
    local_bytes: int = 0
    clusters: bool = False
    """True if it names other blocks of its cluster: shared addresses then have a rank."""
    scheduled: bool = False
    """True if the code is compiled for schedules: then a warp may be suspended before the
    instructions of `switches`, and its lanes may part before those of `parts`."""
    switches: frozenset[int] = frozenset()
    parts: frozenset[int] = frozenset()
    delayed: frozenset[int] = frozenset()
    holds: frozenset[int] = frozenset()
    """Stores that a schedule may delay, and instructions that order them: a warp may be suspended
    there while stores are pending."""
    awaits: frozenset[int] = frozenset()
    """Instructions before which a warp may wait for others of its warpgroup."""
    apart: set[int] = field(default_factory=set)
    """Blocks that lanes may run in any order, since they may have parted before."""
    settled: bool = False
    """True once the forms are final: after the program is prepared."""
    _results: dict[int, Form | None] = field(default_factory=dict)
    _defs: dict[int, list[str]] = field(default_factory=dict)
    _uses: dict[int, list[str]] = field(default_factory=dict)

    def is_cut(self, ins: Instruction) -> bool:
        """Return whether a warp may be suspended before the instruction: it starts a block."""
        return any(ins.index in x for x in (self.switches, self.awaits, self.holds))

    def blocks_from(self, wanted: Collection[int]) -> list[int]:
        """The blocks that start with one of these instructions."""
        return [b.index for b in self.graph.blocks if b.code and b.code[0].index in wanted]

    @property
    def threads(self) -> int:
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def warps(self) -> int:
        return (self.threads + 31) // 32

    @property
    def full_warps(self) -> bool:
        return self.threads % 32 == 0

    @property
    def uses_shared(self) -> bool:
        """Return whether the kernel has variables in shared memory."""
        return any(space == "shared" for space, _ in self.symbols.values())

    # ---- operands ---------------------------------------------------------------------------
    def defs(self, ins: Instruction) -> list[str]:
        """Registers an instruction writes."""
        known = self._defs.get(ins.index)
        if known is None:
            known = self._defs[ins.index] = self._find_defs(ins)
        return known

    def uses(self, ins: Instruction) -> list[str]:
        """Registers an instruction reads."""
        known = self._uses.get(ins.index)
        if known is None:
            known = self._uses[ins.index] = self._find_uses(ins)
        return known

    def forget_operands(self) -> None:
        """Discard cached operands, since those of instructions have changed."""
        self._defs.clear()
        self._uses.clear()

    def _find_defs(self, ins: Instruction) -> list[str]:
        d = self.decoded.get(ins.index)
        if d is None or not d.row.has_dest or not ins.operands:
            return []
        out = cfg.registers(ins.operands[0])
        if any(s.pair == "cc" for s in d.row.operands):
            out.append(CARRY)
        return out

    def _find_uses(self, ins: Instruction) -> list[str]:
        d = self.decoded.get(ins.index)
        written = d is not None and d.row.has_dest and not d.row.accumulates
        sources = ins.operands[1:] if written else ins.operands
        out = [r for o in sources for r in cfg.registers(o)]
        if ins.guard is not None:
            out.append(ins.guard)
        if d is not None and any(s.name == "cc" for s in d.row.operands):
            out.append(CARRY)
        return out

    def form_of(self, operand: Operand) -> Form | None:
        """The form of a source; None while nothing has been written to it yet."""
        if type(operand) is Reg:  # most are, and a match takes longer
            return self.forms.get(operand.name)
        match operand:
            case Imm(value):
                return constant(value)
            case Special(name):
                return special_form(name, self.shape)
            # Offsets in shared and local memory are known here; a global variable has its address
            # at launch.
            case Sym(name, offset) if self.symbols.get(name, ("",))[0] in ("shared", "local"):
                space, start = self.symbols[name]
                if space == "shared" and self.clusters:
                    return cluster_address(start + offset)
                return constant(start + offset)
            case Not(of):
                return self.form_of(of)
            case Mem(base, _):
                return self.form_of(base)
            case Vec(items):
                return self._join([self.form_of(x) for x in items])
            case Pair(a, b):
                return self._join([self.form_of(a), self.form_of(b)])
        return SOME_UNIFORM

    def branch_table(self, ins: Instruction) -> list[int]:
        """The blocks a `brx.idx` may go to, by index."""
        symbol = ins.operands[1]
        assert isinstance(symbol, Sym)
        return [self.graph.labels[x] for x in self.function.branch_targets[symbol.name]]

    def _join(self, forms: list[Form | None]) -> Form | None:
        written = [f for f in forms if f is not None]
        if len(written) < len(forms):
            return None
        return SOME_UNIFORM if all(f.kind == UNIFORM for f in written) else vector()

    # ---- the form of a result ---------------------------------------------------------------
    def result(self, ins: Instruction) -> Form | None:
        """The form an instruction gives its destination; None while an operand is unknown."""
        if not self.settled:
            return self._result(ins)
        if ins.index not in self._results:
            self._results[ins.index] = self._result(ins)
        return self._results[ins.index]

    def _result(self, ins: Instruction) -> Form | None:
        d = self.decoded[ins.index]
        sources = [self.form_of(o) for o in ins.operands[1:]]
        if CARRY in self.uses(ins):
            sources.append(self.forms.get(CARRY))
        operands = [f for f in sources if f is not None]
        if len(operands) < len(sources):
            return None
        if d.row.warp:
            if d.row.form is ResultForm.ADDRESS and d.space == "local":
                return self._local_address(d, operands[0])
            rule = WARP_FORMS.get(d.row.form)
            result = rule(ins, operands) if rule else vector()
            return result if result.kind != STRIPED or self._is_index(ins) else vector()
        form = self._integer(ins, d, operands) if d.kinds <= PLAIN else None
        if form is not None:
            return form if form.kind != STRIPED or self._is_index(ins) else vector()
        return SOME_UNIFORM if all(f.kind == UNIFORM for f in operands) else vector()

    def _is_index(self, ins: Instruction) -> bool:
        """Return whether it writes a 32-bit integer register."""
        dest = ins.operands[0]
        return isinstance(dest, Reg) and self.function.registers[dest.name] in INDEX_TYPES

    def _local_address(self, d: isa.Decoded, a: Form) -> Form:
        """The form of a local address: each lane has its own local memory, `local_bytes` apart."""
        if not a.is_scalar:
            return vector()
        sign = -1 if d.from_generic else 1
        return affine(tuple(x + sign * i * self.local_bytes for i, x in enumerate(a.off)))

    def _integer(self, ins: Instruction, d: isa.Decoded, fs: list[Form]) -> Form | None:
        """The form of an integer result whose arithmetic keeps structure, else None."""
        kind, dest = d.type, ins.operands[0]
        if d.row.form is ResultForm.CONVERSION and isinstance(dest, Reg):
            register = bits_of(self.function.registers[dest.name])
            return convert(ins, fs[0], d.types["d"], d.types["a"], register)
        fs = [
            f if t == "pred" else truncated(f, bits_of(t))
            for f, t in zip(fs, d.source_types, strict=False)
        ]
        if d.wide and kind in ("u32", "s32"):
            return widening_product(fs, kind[0] == "s")
        rule = lattice.TABLE.get(d.row.form) if kind in INTEGERS else None
        return rule(fs, bits_of(kind), kind[0] == "s") if rule else None
