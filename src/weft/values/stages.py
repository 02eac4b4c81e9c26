"""Defines the life of a block's stages: parts of shared memory that copies fill again and again.

    BlockStages
      block       the number of the block
      clocks      when its last event took place
      stages      each mbarrier that copies report to, with the memory that these copies fill
      tensor      when the tensor cores of its SM were busy with its products
      copies      when the copy engine of its SM was busy with its copies
      whole       False if the block had more events than are kept: these are the first ones

Clocks are those of a model, from the start of the block. Instructions are indices of the profile's.
"""

from __future__ import annotations

from dataclasses import dataclass

Span = tuple[int, int]
"""Two clocks."""


@dataclass(frozen=True)
class StageUse:
    """One use of a stage: copies fill it, warps wait for them and read it, and it is released.

    issued, copy        the first copy is issued, by this instruction
    filled              all bytes are there, and all arrivals that its mbarrier expects
    opened, wait        the first warp goes on after its wait, at this instruction
    consumed, read      the last read ends, of this instruction
    released, release   the threads that fill it may go on, by an arrival of this instruction
    nbytes              bytes of its copies

    A moment that did not come is None.
    """

    issued: int
    copy: int
    filled: int
    nbytes: int
    opened: int | None = None
    wait: int | None = None
    consumed: int | None = None
    read: int | None = None
    released: int | None = None
    release: int | None = None


@dataclass(frozen=True)
class Stage:
    """A part of shared memory: its first byte, the offset of its mbarrier, and its uses in turn."""

    offset: int
    barrier: int
    uses: tuple[StageUse, ...]


@dataclass(frozen=True)
class BlockStages:
    """The stages of one block; the module docstring describes the fields."""

    block: int
    clocks: int
    stages: tuple[Stage, ...]
    tensor: tuple[Span, ...] = ()
    copies: tuple[Span, ...] = ()
    whole: bool = True
