"""Protocols of the warp under emission, for the parts of the code generator.

`emit.warp.WarpEmitter` implements all of it. A part names the smallest protocol that it needs, or
combines several, so that its reader knows what it depends on, and no part imports the emitter.

    Emission      the code under construction, and the instruction that it is for
    Operands      registers and constants, as an instruction reads and writes them
    Masks         the lanes that run a block and execute an instruction
    Pointers      where the state and the memory of the warp are
    Errors        ways to leave the warp
    LaneArrays    stack arrays with one element per lane
    LaneSchedule  where lanes wait
    FrameSpace    bytes in the warp's frame
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # reading an observer's results must not import the code generator
    from weft.device.sim.address import Address, Stripes, Wide
    from weft.device.sim.analyse.program import KernelProgram
    from weft.ir import Builder, Val
    from weft.ptx.cfg import BasicBlock
    from weft.ptx.model import Instruction, Operand, Sym


class Emission(Protocol):
    """The code under construction, and the place in the program that it is for."""

    b: Builder
    program: KernelProgram
    block: BasicBlock
    ins: Instruction


class InstructionOperands(Emission, Protocol):
    """Sources and destinations of the instruction at hand."""

    def read(self, operand: Operand, ptx_type: str) -> Val:
        """A source: a scalar where all lanes agree, else 32 lanes."""

    def base(self, operand: Operand, ptx_type: str) -> Val:
        """The scalar part of an affine source."""

    def read_lanes(self, operand: Operand, ptx_type: str) -> Val:
        """A source as 32 lanes."""

    def read_vector(self, operand: Operand, ptx_type: str) -> list[Val]:
        """The elements of a `{...}` source (or one register), each as 32 lanes."""

    def read_wide(self, name: str) -> Wide:
        """A register of one of the symbolic wide forms."""

    def read_stripes(self, name: str) -> Stripes:
        """A register of the striped form."""

    def symbol(self, sym: Sym) -> Val:
        """The address of a variable, as an instruction of its space sees it."""

    def write(self, operand: Operand, value: Val, *, signed: bool = False) -> None:
        """A destination; a sink is allowed."""

    def write_vector(self, operand: Operand, values: Sequence[Val]) -> None:
        """The elements of a `{...}` destination (or one register)."""


class Masks(Emission, Protocol):
    """Sets of lanes. As bits they are an `i32`, as lanes a `<32 x i1>`."""

    predicate_taken: bool
    """True if a branch has already tested the guard, so that the code runs only where it holds."""

    @property
    def always_full(self) -> bool:
        """True if all 32 lanes run this block in any launch."""

    @property
    def executes_fully(self) -> bool:
        """True if all 32 lanes execute this instruction in any launch."""

    @property
    def active_lanes(self) -> int:
        """The upper bound on the lanes that run this block in any launch."""

    def mask(self) -> Val:
        """The lanes that run this block, as bits."""

    def executing(self) -> Val:
        """The lanes that execute this instruction, as bits: the mask and the guard."""

    def executes_in_all(self) -> Val:
        """True if all 32 lanes execute this instruction; it may be false although they do."""

    def lanes_of(self, bits: Val) -> Val:
        """Bits as lanes."""

    def bits_of(self, lanes: Val) -> Val:
        """Lanes as bits."""

    def forget_mask(self) -> None:
        """Discard the masks computed in code that not all paths pass; call it after such code."""


class Executing(InstructionOperands, Masks, Protocol):
    """Operands, and the lanes that they apply to."""


class Pointers(Protocol):
    """The memory that a warp works with; `layout` has the offsets in the first four."""

    context: Val
    worker: Val
    slot: Val
    frames: Val
    """The frames of the block's warps."""
    shared: Val
    shared_bytes: Val
    params: Val
    rank_base: Val
    """In a cluster, the block's rank, above the offset of a shared address."""
    sites: Val
    """The cached windows of memory instructions: see `memory.windows`."""

    @property
    def warp(self) -> Val:
        """The number of the warp in its block."""

    @property
    def frame(self) -> Val:
        """The frame of the warp that runs."""

    @property
    def local(self) -> Val:
        """Local memory of lane 0; the other lanes follow."""


class Located(Emission, Pointers, Protocol):
    """The pointers needed to check an address and to record an error."""


class Errors(Protocol):
    """Ways to leave the warp when something is wrong."""

    def fault(self, code: int, lane: Val | None = None, address: Val | None = None) -> None:
        """Record an error and leave the warp; the following code is unreachable."""

    def abort_unless(self, ok: Val) -> None:
        """Leave the warp when a helper has recorded an error."""


class LaneArrays(Protocol):
    """Stack arrays with an element per lane; each has one purpose and is reused."""

    def addresses(self, a: Address) -> Val:
        """The host addresses of 32 lanes, in `table()`."""

    def table(self) -> Val:
        """The array that `addresses` fills."""

    def offsets(self) -> Val:
        """32 offsets inside a window."""

    def buffer(self, count: int) -> Val:
        """`count` elements per lane, of 8 bytes each at most."""


class PendingLanes(Protocol):
    """Lanes that wait for their turn while others run."""

    def none_before(self, target: int) -> Val:
        """True at run time if no lane is due before those that go to block `target`."""


class LaneSchedule(Protocol):
    """The places where lanes of the warp wait."""

    @property
    def pending(self) -> PendingLanes: ...

    @property
    def barriers(self) -> Sequence[tuple[int, Instruction]]:
        """The barriers at which lanes wait: block and instruction."""

    @property
    def waits_at(self) -> int:
        """The offset in the frame of 16 bytes per barrier: waiting lanes, number, generation."""

    @property
    def spin_heads(self) -> Collection[int]:
        """Blocks at which loops start that may be waiting for another thread."""

    def live(self) -> Val:
        """The lanes that have not returned, as bits."""

    def waiting(self, barrier: int) -> Val:
        """The lanes that wait at a barrier, as bits."""


class CopyRing(Protocol):
    """The ring of a warp's asynchronous copies: see `memory.async_copies`."""

    used: bool
    at: int
    """Its offset in the frame."""
    count: int
    """The entries that it has room for."""


class FrameSpace(Protocol):
    """Bytes of the warp's frame."""

    def reserve(
        self, nbytes: int, start: Callable[[], None], finish: Callable[[], None] | None = None
    ) -> int:
        """The offset of `nbytes` for a part's own use, 64-byte aligned.

        `start` emits the code with which a new warp prepares them, `finish` what runs at its end.
        """
