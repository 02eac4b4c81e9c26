"""Plan batch norm in training in one launch: blocks keep their part of a tensor on chip."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Counters, Pointer, Step, partials
from weft.ops.families.norm import model
from weft.ops.families.norm.channels import Channels
from weft.ops.families.norm.structs import ChannelShape

FLOATS = 2
"""Numbers of each channel and part that blocks exchange."""
CLUSTERS = (9, 0)
"""The first compute capability with clusters of blocks."""
ALIGNED = 8
"""Bytes of the least vectors that are copied to shared memory."""


@dataclass(frozen=True)
class Resident:
    """The work of blocks that keep their vectors of some tensors.

    parts    blocks for each channel; they run at the same time
    cluster  True if they are a cluster
    kept     vectors of a thread and tensor that stay in shared memory
    vectors  vectors of a thread and tensor
    """

    made: Channels
    tensors: int
    threads: int
    parts: int
    kept: int
    vectors: int
    cluster: bool = False

    @property
    def meeting(self) -> str:
        """A way in which blocks meet: see Meeting of resident.cuh."""
        return "ALONE" if self.parts == 1 else "CLUSTER" if self.cluster else "GRID"

    @property
    def blocks(self) -> int:
        return self.made.tiles * self.parts

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block for its vectors."""
        return self.kept * self.tensors * self.threads * vector_bytes(self.made)

    @property
    def time(self) -> float:
        """Modelled seconds."""
        made = self.made
        gpu, size = made.request.target, made.size * made.channels * made.dtype.itemsize
        read_again = 1 - self.kept / self.vectors
        if size * self.tensors * read_again < model.RESIDENT_L2_SHARE * gpu.l2:
            read_again *= model.L2_SHARE
        moved = size * (self.tensors * (1 + read_again) + 1)
        busy = self.blocks / (cdiv(self.blocks, gpu.sms) * gpu.sms)
        time = model.stream_time(gpu, moved / min(1.0, busy / model.RESIDENT_BUSY))
        return time + model.MEET_TIMES[self.meeting]

    @property
    def why(self) -> str:
        """The figures behind the time."""
        on_chip = f"{min(100, 100 * self.kept // self.vectors)} % on chip"
        of = " of a cluster" if self.cluster else ""
        return f"{self.parts} blocks{of} per channel, vectors of {self.made.vector}, {on_chip}"

    def step(self, file: str, name: str, *args: Any, dtypes: tuple[torch.dtype, ...]) -> Step:
        """The launch; the struct and the numbers of all kernels follow `args`."""
        made = self.made
        words = map(source.ctype, (made.dtype, *dtypes))
        walk = source.template("Walk", made.vector, made.flat, False, self.threads)
        if made.small:
            walk = source.template("Planes", made.vector, self.threads)
        text = ", ".join((*words, walk, self.meeting, str(self.kept == self.vectors).lower()))
        kernel = source.kernel(f"norm/{file}", f"{name}<{text}>", **ChannelShape.define())
        numbers = (self.kept, float(made.size))
        eps = made.request.options["eps"]
        return self.launch(kernel, (*args, Counters(), made.shape(self.parts), *numbers, eps))

    def launch(self, kernel: Any, args: tuple[Any, ...]) -> Step:
        """The launch of a kernel for these blocks."""
        grid = (self.made.tiles, self.parts) if self.cluster else (self.blocks,)
        cluster = (1, self.parts, 1) if self.cluster else None
        # Blocks that meet in the grid are launched cooperatively, which no early launch is known
        # to be.
        early = self.meeting != "GRID"
        return Step(kernel, grid, (self.threads,), args, self.shared, cluster, early)

    def found(self, place: Pointer) -> tuple[Argument, tuple[Buffer, ...]]:
        """Memory for the sums of blocks; also the scratch buffer at `place` that it is, if any."""
        if self.parts == 1:
            return None, ()
        shared = partials(4 * FLOATS * self.parts * self.made.channels)
        if shared is not None:
            return shared, ()
        return place, (Buffer((self.parts * self.made.channels, FLOATS), torch.float32),)


def vector_bytes(made: Channels) -> int:
    """Bytes of a vector."""
    return made.vector * int(made.dtype.itemsize)


def _even(made: Channels) -> Channels:
    """The same with shorter vectors, if planes are such whole vectors but no longer ones."""
    vector = math.gcd(made.plane, made.wide)
    if made.flat or not made.ragged or vector * made.dtype.itemsize < ALIGNED:
        return made
    inner = made.plane // vector
    count = made.size // vector
    return replace(made, ragged=False, vector=vector, inner=inner, count=count)


def room_of(made: Channels) -> int:
    """Bytes of shared memory that a block may have for vectors."""
    gpu = made.request.target
    # Where blocks follow each other, two of an SM overlap: one reads while the other writes.
    room = gpu.shared_per_block if made.tiles <= gpu.sms else gpu.shared_per_sm // 2
    return room - (model.PLANES_STATIC if made.small else model.RESIDENT_STATIC)


def resident(made: Channels, tensors: int) -> Resident | None:
    """The work of blocks that keep vectors of so many tensors; None where none of them can."""
    gpu, made = made.request.target, _even(made)
    if made.ragged or vector_bytes(made) < ALIGNED or gpu.capability < (7, 0):
        return None
    found = _with(made, tensors, model.RESIDENT_THREADS)
    if found.kept < found.vectors and not made.small:
        found = _with(made, tensors, model.STREAMING_THREADS)
    if found.kept == 0:
        return None
    if found.parts == 1:
        return found
    if (alone := _alone(made, tensors)) is not None:
        return alone
    return min((found, *_clusters(made, tensors)), key=lambda x: x.time)


def _clusters(made: Channels, tensors: int) -> list[Resident]:
    """Blocks of few channels that share these in a cluster, if all of their vectors fit."""
    gpu, narrow, threads = made.request.target, _narrow(made), model.RESIDENT_THREADS
    if not made.flat or made.small or gpu.capability < CLUSTERS:
        return []
    vectors = cdiv(cdiv(narrow.count, model.CLUSTER_BLOCKS), threads // narrow.width)
    parts = cdiv(narrow.count, vectors * (threads // narrow.width))
    found = Resident(narrow, tensors, threads, parts, vectors, vectors, True)
    fits = found.shared <= room_of(narrow) and found.blocks <= gpu.sms
    return [found] if fits and parts > 1 else []


def _narrow(made: Channels) -> Channels:
    """The same with blocks of few channels: a sector of memory."""
    return replace(made, widest=model.NARROW_WIDTH)


def _alone(made: Channels, tensors: int) -> Resident | None:
    """Blocks with few channels, which each has alone: none waits; None where they have too much."""
    narrow, threads = _narrow(made), model.RESIDENT_THREADS
    vectors = cdiv(made.count, threads // narrow.width)
    few = tensors * vectors <= model.NARROW_VECTORS and narrow.tiles <= made.request.target.sms
    return Resident(narrow, tensors, threads, 1, vectors, vectors) if made.flat and few else None


def _with(made: Channels, tensors: int, threads: int) -> Resident:
    """The work of blocks of so many threads."""
    gpu, rows, parts = made.request.target, threads // made.width, 1
    if made.tiles <= min(gpu.sms, COUNTERS):
        parts = max(1, min(gpu.sms // made.tiles, cdiv(made.count, rows * model.RESIDENT_VECTORS)))
        # Without parts that have nothing.
        parts = cdiv(made.count, cdiv(made.count, parts))
    vectors = cdiv(cdiv(made.count, parts), rows)
    kept = min(vectors, room_of(made) // (tensors * threads * vector_bytes(made)))
    return Resident(made, tensors, threads, parts, kept, vectors)
