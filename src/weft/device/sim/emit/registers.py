"""Registers of a program: stack slots while it runs, frame bytes while it waits."""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.analyse.form import INDEXED, SPARSE, STRIPED, VECTOR, ZERO, Form
from weft.device.sim.analyse.program import CARRY, KernelProgram
from weft.device.sim.lane_sets import lane_bits, lanes_of
from weft.ir import BITS, Builder, Val
from weft.records import dataclass

_STORAGE = {
    "pred": "i1", "b8": "i8", "u8": "i8", "s8": "i8", "b16": "i16", "u16": "i16", "s16": "i16",
    "f16": "i16", "bf16": "i16", "b32": "i32", "u32": "i32", "s32": "i32", "f32": "float",
    "f16x2": "i32", "bf16x2": "i32", "b64": "i64", "u64": "i64", "s64": "i64", "f64": "double",
    "b128": "i128",
}  # fmt: skip

# Points times registers, of vectors and of scalars; vectors that are live at once (`settle`).
MANY_JOINS = 128
MANY_SCALAR_JOINS = 1000
MANY_LIVE = 14


@dataclass(slots=True)
class RegisterPart:
    """One stack slot of a register."""

    ty: str
    lanes: int
    slot: Val | None
    """None: it is resident, in the frame at all times."""
    offset: int = -1
    align: int = 0
    stored: tuple[str, str] | None = None
    """For a scalar: the block of IR that stored it last, and the stored value."""

    @property
    def resident(self) -> bool:
        return self.slot is None

    @property
    def frame_bytes(self) -> int:
        # A predicate is one word in the frame, with a bit for each lane.
        return max(1, BITS[self.ty] // 8) * max(1, self.lanes) if self.ty != "i1" else 4


class Registers:
    """Stack slots for every register that is used, made on demand."""

    def __init__(self, program: KernelProgram, b: Builder, frame: Callable[[], Val]) -> None:
        self.program, self.b = program, b
        self.parts: dict[str, list[RegisterPart]] = {}
        self._frame = frame
        self.frame_bytes = 0
        self.at_start: list[str] = []
        """Lines with which every warp starts or resumes."""
        self.header = 0
        self.resident: set[str] = set()
        self.resident_scalars: set[str] = set()
        self.crowded = False
        self._live_somewhere: set[str] = set()
        self._storage = {CARRY: "i1"}

    def settle(
        self, header: int, points: list[int], waiting: set[str], addressed: set[str]
    ) -> None:
        """Decide where registers live, once the frame's header is known.

        Those in `addressed` have an address at all times.

        Two kinds are stored in the frame instead of LLVM's variables. A register that is live where
        lanes may wait (at `points`; those of `waiting` at barriers) would be joined in each of
        those places: a vector costs LLVM much there, a scalar little, until there are thousands.
        Where more vectors are live than the host has registers, they are in memory anyway, and LLVM
        takes far longer to find this out than to load them.
        """
        self.header = header
        live_in = self.program.graph.live_in
        self._live_somewhere = set[str]().union(*live_in)
        self.resident |= {r for r in addressed if self.is_vector(r)}
        joined = waiting.union(*(live_in[x] for x in points))
        vectors = {r for r in joined if self.program.forms[r].kind in (VECTOR, SPARSE)}
        if len(points) * max(1, len(vectors - self._given_at_the_start())) > MANY_JOINS:
            self.resident |= vectors  # those of the start, too: a warp that goes on restores them
        scalars = {r for r in joined if self.program.forms[r].kind != VECTOR}
        if len(points) * len(scalars) > MANY_SCALAR_JOINS:
            self.resident_scalars = scalars
        for live in live_in:
            crowd = [r for r in live if self.is_vector(r)]
            if len(crowd) > MANY_LIVE:
                self.crowded = True
                self.resident.update(crowd)

    def may_be_resident(self, name: str) -> bool:
        """Return whether the register, or a part of it, is stored in the frame."""
        return name in self.resident or name in self.resident_scalars

    def _given_at_the_start(self) -> set[str]:
        """Registers that only the first block writes: joined nowhere, unless a warp was waiting."""
        program = self.program
        first = {r for ins in program.graph.blocks[0].code for r in program.defs(ins)}
        later = {r for b in program.graph.blocks[1:] for ins in b.code for r in program.defs(ins)}
        return first - later

    def is_vector(self, name: str) -> bool:
        """Return whether it is stored as 32 values that memory can hold unchanged."""
        return self.program.forms[name].kind == VECTOR and self.storage(name) != "i1"

    def storage(self, name: str) -> str:
        """The element type in which a register is stored."""
        known = self._storage.get(name)
        if known is None:
            kind = _STORAGE[self.program.function.registers[name]]
            # As a float: only floats are made canonical when their bits are read.
            is_float = kind == "i32" and name in self.program.raw_nan
            known = self._storage[name] = "float" if is_float else kind
        return known

    def of(self, name: str) -> list[RegisterPart]:
        """The slots of a register: one, or (base, index) for the symbolic wide forms."""
        if name not in self.parts:
            form = self.program.forms[name]
            shapes = {
                STRIPED: [("i32", 0), ("i32", 0)],
                INDEXED: [("i64", 0), ("i32", 0), *[("i32", 0)] * (form.rows != ZERO)],
                SPARSE: [("i64", 0), ("i32", 32)],
                VECTOR: [(self.storage(name), 32)],
            }.get(form.kind, [(self.storage(name), 0)])
            self.parts[name] = [
                self._in_frame(ty, n)
                if self._is_resident(name, n)
                else self._on_stack(ty, n, joined=name in self._live_somewhere)
                for ty, n in shapes
            ]
        return self.parts[name]

    def _is_resident(self, name: str, lanes: int) -> bool:
        return name in (self.resident if lanes else self.resident_scalars)

    def _on_stack(self, ty: str, lanes: int, *, joined: bool) -> RegisterPart:
        """A slot on the stack.

        A register that lives inside of one block is written there before it is read. Any other has
        no value when a warp starts or resumes, until it is restored: LLVM would keep what the last
        warp had in it.
        """
        slot = self.b.alloca(ty, lanes)
        if joined:
            shape = f"<{lanes} x {ty}>" if lanes else ty
            self.at_start.append(f"  store {shape} poison, ptr {slot.ref}")
        return RegisterPart(ty, lanes, slot)

    def clear_unwritten(self) -> None:
        """A fresh warp: registers that may be read before they are written are 0."""
        for name in sorted(self.program.graph.live_in[0]):
            for part in self.of(name):
                self.store(part, self.b.zero(part.ty, part.lanes))

    def _in_frame(self, ty: str, lanes: int) -> RegisterPart:
        part = RegisterPart(ty, lanes, None, align=64 if lanes else 4)
        self.frame_offset(part)
        return part

    def place(self, part: RegisterPart, lane: Val | None = None) -> Val:
        """The address of a part, or of a lane of it, whose number has 64 bits."""
        b = self.b
        start = self._frame() if part.slot is None else part.slot
        if lane is not None:  # first, since other parts have lanes of the same size
            start = b.at(start, lane * (BITS[part.ty] // 8))
        return b.at(start, part.offset) if part.slot is None else start

    def load(self, part: RegisterPart) -> Val:
        if part.stored is not None and part.stored[0] == self.b.block:
            return Val(self.b, part.ty, 0, part.stored[1])
        if part.resident and part.ty == "i1":
            bits = self.b.load("i32", 0, self.place(part), 4)
            return lanes_of(self.b, bits) if part.lanes else bits.trunc("i1")
        return self.b.load(part.ty, part.lanes, self.place(part), part.align)

    def store(self, part: RegisterPart, value: Val) -> None:
        if part.resident and part.ty == "i1":
            bits = lane_bits(self.b, [value]) if part.lanes else value.zext("i32")
            self.b.store(bits, self.place(part), 4)
        else:
            self.b.store(value, self.place(part), part.align)
        # A vector takes too many machine registers to be kept there. A number that is found only by
        # the way is no constant of the program, of which more is assumed.
        known = not part.lanes and value.element == part.ty and not value.is_const
        part.stored = (self.b.block, value.ref) if known else None

    def keep(self, form: Form) -> bool:
        """Return whether it must survive a suspension; a known constant need not."""
        return form.const is None

    def frame_offset(self, part: RegisterPart) -> int:
        """The register's place in the frame, given out on first use."""
        if part.offset < 0:
            size = part.frame_bytes
            align = 64 if size >= 64 else 8
            start = (self.header + self.frame_bytes + align - 1) // align * align
            part.offset = start
            self.frame_bytes = start + size - self.header
        return part.offset

    def save(self, names: list[str], frame: Val) -> None:
        for part in self._kept(names):
            v = self.load(part)
            at = self.b.at(frame, self.frame_offset(part))
            if part.ty == "i1":
                v = lane_bits(self.b, [v]) if part.lanes else v.zext("i32")
            self.b.store(v, at, 8)

    def restore(self, names: list[str], frame: Val) -> None:
        b = self.b
        for part in self._kept(names):
            at = b.at(frame, self.frame_offset(part))
            if part.ty == "i1":
                bits = b.load("i32", 0, at, 8)
                v = lanes_of(b, bits) if part.lanes else bits.trunc("i1")
            else:
                v = b.load(part.ty, part.lanes, at, 8)
            b.store(v, self.place(part))
            part.stored = None

    def _kept(self, names: list[str]) -> list[RegisterPart]:
        forms = self.program.forms
        parts = [p for name in names if self.keep(forms[name]) for p in self.of(name)]
        # The others are in the frame at all times.
        return [p for p in parts if not p.resident]
