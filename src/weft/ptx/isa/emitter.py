"""The device's interface for warp rows, which emit code."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from weft.ir import Builder, Val
from weft.ir.tensor_prepare import Fragments
from weft.ptx.model import Instruction, Operand


class LaneOps(Protocol):
    """Instructions that move values between the lanes of a warp."""

    def shuffle(self, ins: Instruction, mode: str) -> None: ...
    def vote(self, ins: Instruction, op: str) -> None: ...
    def active_mask(self, ins: Instruction) -> None: ...
    def match(self, ins: Instruction, op: str, ptx_type: str) -> None: ...
    def reduce(self, ins: Instruction, op: str, *, signed: bool) -> None: ...
    def elect(self, ins: Instruction) -> None: ...


class AtomicOps(Protocol):
    """`[mem] = op([mem], given)` as one step; `dest` receives the old value."""

    def run(
        self, ins: Instruction, dest: Operand | None, mem: Operand, given: tuple[Operand, ...],
        *, op: str, space: str, ptx_type: str,
    ) -> None: ...  # fmt: skip


class AsyncCopyOps(Protocol):
    """Copies to shared memory that complete when they are waited for."""

    def issue(self, ins: Instruction) -> None: ...
    def commit(self) -> None: ...
    def wait(self, pending: int | None) -> None: ...


class BulkCopyOps(Protocol):
    """Copies of whole ranges that complete when their mbarrier or their group is waited for."""

    def issue(self, ins: Instruction) -> None: ...
    def commit(self) -> None: ...
    def wait(self, pending: int) -> None: ...


class TensorCopyOps(Protocol):
    """Copies between shared memory and boxes of tensors, and the maps that describe these."""

    def issue(self, ins: Instruction) -> None: ...
    def replace(self, ins: Instruction, field: str, space: str, ptx_type: str) -> None: ...
    def copy_map(self, ins: Instruction) -> None: ...


class MbarrierOps(Protocol):
    """Barrier objects in shared memory, changed by one named step after another."""

    def step(
        self, ins: Instruction, step: str, mem: Operand, given: Operand | int, space: str
    ) -> Val: ...
    def arrive(
        self, ins: Instruction, step: str, mem: Operand, given: Operand | int, space: str,
        dest: Operand,
    ) -> None: ...  # fmt: skip
    def test(self, ins: Instruction, space: str, *, parity: bool) -> None: ...
    def pending_count(self, ins: Instruction) -> None: ...


class ClusterOps(Protocol):
    """The barrier of a cluster, and addresses in the shared memory of its blocks."""

    def arrive(self, ins: Instruction) -> None: ...
    def wait(self, ins: Instruction) -> None: ...
    def map_address(self, ins: Instruction, ptx_type: str, *, near: bool) -> None: ...
    def rank_of(self, ins: Instruction, ptx_type: str, *, near: bool) -> None: ...


class MatrixOps(Protocol):
    """Matrix fragments to and from memory."""

    def load_rows(self, ins: Instruction, count: int, space: str, *, transposed: bool) -> None: ...
    def store_rows(self, ins: Instruction, count: int, space: str, *, transposed: bool) -> None: ...
    def transpose(self, ins: Instruction) -> None: ...
    def load_fragment(
        self, ins: Instruction, matrix: str, shape: str, kind: str, layout: str, space: str
    ) -> None: ...
    def store_fragment(
        self, ins: Instruction, shape: str, kind: str, layout: str, space: str
    ) -> None: ...


class WarpgroupOps(Protocol):
    """Matrix products of a warpgroup, which complete when they are waited for."""

    def issue(self, ins: Instruction) -> None: ...
    def commit(self) -> None: ...
    def wait(self, pending: int) -> None: ...


class TextureOps(Protocol):
    """The texture unit: texture and surface objects, by their handles."""

    def fetch(
        self, ins: Instruction, function: str, geometry: str, ptx_type: str, coordinates: str
    ) -> None: ...
    def query(self, ins: Instruction, query: str) -> None: ...
    def load(
        self, ins: Instruction, geometry: str, ptx_type: str, count: int, outside: str
    ) -> None: ...
    def store(
        self, ins: Instruction, geometry: str, ptx_type: str, count: int, outside: str
    ) -> None: ...
    def reduce(
        self, ins: Instruction, which: int, geometry: str, ptx_type: str, outside: str
    ) -> None: ...


class Warp(Protocol):
    """The code of one warp under construction; lanes that are not active keep their registers."""

    b: Builder
    fast_math: bool
    fragments: Fragments
    across: LaneOps
    atomics: AtomicOps
    copies: AsyncCopyOps
    bulk: BulkCopyOps
    tensors: TensorCopyOps
    mbarriers: MbarrierOps
    cluster: ClusterOps
    matrices: MatrixOps
    warpgroups: WarpgroupOps
    textures: TextureOps

    def read(self, operand: Operand, ptx_type: str) -> Val:
        """A source: a scalar when all lanes agree, else 32 lanes."""

    def read_lanes(self, operand: Operand, ptx_type: str) -> Val:
        """A source as 32 lanes."""

    def read_vector(self, operand: Operand, ptx_type: str) -> list[Val]:
        """The elements of a `{...}` source (or one register), each as 32 lanes."""

    def contents(self, operand: Operand) -> Hashable:
        """A key of a source's contents: equal for equal contents; None if they are unknown."""

    def contents_written(self, operand: Operand) -> Hashable:
        """As `contents`, after a write; None if lanes may have kept their old values."""

    def write(self, operand: Operand, value: Val) -> None:
        """A destination; a sink is allowed."""

    def write_vector(self, operand: Operand, values: Sequence[Val]) -> None:
        """The elements of a `{...}` destination (or one register)."""

    def active(self) -> Val:
        """The lanes that execute this instruction, `<32 x i1>`."""

    def move(self, ins: Instruction, ptx_type: str) -> None:
        """`mov` in all its forms: registers, addresses, packing and unpacking."""

    def load(self, ins: Instruction, space: str, ptx_type: str, order: str) -> None:
        """`ld` with every access checked."""

    def store(self, ins: Instruction, space: str, ptx_type: str, order: str) -> None:
        """`st` with every access checked."""

    def convert_address(self, ins: Instruction, space: str, *, to_space: bool) -> None:
        """Between a state space's own addresses and generic ones."""

    def test_space(self, ins: Instruction, space: str) -> None:
        """Test whether a generic address lies in a state space."""

    def fence(self) -> None:
        """Order memory accesses before and after it."""

    def barrier(self, ins: Instruction, op: str) -> None:
        """Arrive at a barrier of the block; waiting happens at the end of the block of code."""

    def trap(self, ins: Instruction) -> None:
        """End the launch with an error."""

    def call(self, ins: Instruction) -> None:
        """A function that the host serves (`vprintf`, `__assertfail`, `malloc`, `free`)."""
