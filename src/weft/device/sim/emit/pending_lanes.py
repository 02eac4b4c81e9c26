"""Pending lanes of a warp: where they will resume, and which of them are due next.

The frame has a mask of lanes for each point where lanes may wait, a bit for each point that has
some, and the lowest such point. Points are numbered in the order of the blocks.
"""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.emit.frame import FrameWords
from weft.device.sim.layout import NOTHING_PENDING, FrameFields
from weft.device.sim.protocols import Located
from weft.ir import Val


class RunningLanes(Located, Protocol):
    """The warp's mask of running lanes."""

    mask_slot: Val


class PendingQueue:
    """The lanes of a warp under emission that wait for their turn."""

    def __init__(self, e: RunningLanes, words: FrameWords) -> None:
        self.e, self.words = e, words
        regions, hammocks = e.program.regions, e.program.hammocks
        # The lanes of a hammock wait in variables of its branch, and not inside its paths.
        waiting = set[int]().union(*(regions[x] for x in regions if x not in hammocks.by_source))
        self.points = sorted(waiting - hammocks.around.keys())
        self.point = {x: i for i, x in enumerate(self.points)}
        self.bit_words = (len(self.points) + 63) // 64
        self.words_at = FrameFields.HEADER
        self.masks_at = self.words_at + 8 * self.bit_words
        self.end = self.masks_at + 4 * len(self.points)

    def start(self) -> None:
        """A fresh warp has no lanes pending."""
        e, b = self.e, self.e.b
        if not self.points:
            return
        self.words.store(FrameFields.LOWEST, b.integer("i32", NOTHING_PENDING))
        for i in range(self.bit_words):
            b.store(b.integer("i64", 0), b.at(e.frame, self.words_at + 8 * i))
        for i in range(len(self.points)):
            b.store(b.integer("i32", 0), b.at(e.frame, self.masks_at + 4 * i))

    def none_before(self, target: int) -> Val:
        """True at run time if no lane is due before those that go to `target`."""
        return self.words.load(FrameFields.LOWEST).sgt(self.point.get(target, 0))

    def add(self, target: int, lanes: Val) -> None:
        """Record lanes that will continue at `target` later."""
        e, b = self.e, self.e.b
        i = self.point[target]
        at = b.at(e.frame, self.masks_at + 4 * i)
        b.store(b.load("i32", 0, at) | lanes, at)
        word = b.at(e.frame, self.words_at + 8 * (i // 64))
        b.store(b.load("i64", 0, word) | (1 << (i % 64)), word)
        low = self.words.load(FrameFields.LOWEST)
        self.words.store(FrameFields.LOWEST, b.smin(low, i))

    def take(self, i: Val) -> None:
        """Make pending point i the running one and jump to its block."""
        e, b = self.e, self.e.b
        at = b.at(b.at(e.frame, self.masks_at), i.zext("i64") << 2)
        b.store(b.load("i32", 0, at), e.mask_slot)
        b.store(b.integer("i32", 0), at)
        word = b.at(b.at(e.frame, self.words_at), (i >> 6).zext("i64") << 3)
        bit = b.integer("i64", 1) << (i & 63).zext("i64")
        b.store(b.load("i64", 0, word) & ~bit, word)
        self._find_lowest()
        cases = {k: f"B{x}" for k, x in enumerate(self.points)}
        b.jump_table(i, cases, cases[0])

    def _find_lowest(self) -> None:
        b, e = self.e.b, self.e
        low = b.integer("i32", NOTHING_PENDING)
        # From the last word down, so that the lowest point wins.
        for k in reversed(range(self.bit_words)):
            word = b.load("i64", 0, b.at(e.frame, self.words_at + 8 * k))
            first = b.intrinsic("cttz", [word], extra="false").trunc("i32") + 64 * k
            low = b.select(word.ne(0), first, low)
        self.words.store(FrameFields.LOWEST, low)

    def next_turn(self) -> Val:
        """The next pending point after the one that ran last, so that all get a turn."""
        e, b = self.e, self.e.b
        last = self.words.load(FrameFields.ROTATE)
        chosen = b.integer("i32", NOTHING_PENDING)
        for k in reversed(range(self.bit_words)):
            word = b.load("i64", 0, b.at(e.frame, self.words_at + 8 * k))
            rel = b.smax(b.smin(last + (1 - 64 * k), 64), 0).zext("i64")
            # LLVM leaves a shift by 64 undefined, so that case is selected.
            above = b.select(rel.eq(64), b.integer("i64", 0), b.integer("i64", -1) << (rel & 63))
            word = word & above
            first = b.intrinsic("cttz", [word], extra="false").trunc("i32") + 64 * k
            chosen = b.select(word.ne(0), first, chosen)
        low = self.words.load(FrameFields.LOWEST)
        chosen = b.select(chosen.eq(NOTHING_PENDING), low, chosen)
        self.words.store(FrameFields.ROTATE, chosen)
        return chosen
