"""What the checks of the sanitizer may ask of the watcher that calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from weft.device.sim.address import Address
from weft.device.sim.observe import Watched
from weft.device.sim.tools.sanitizer.clocks import Clocks
from weft.device.sim.tools.sanitizer.layout import BlockState
from weft.device.sim.tools.sanitizer.shadow.exact import ExactShadow
from weft.device.sim.tools.sanitizer.shadow.records import Way
from weft.ir import Val
from weft.ptx.model import Instruction

Values = Sequence[Val] | None
"""What a store writes, where that is known."""


class Checking(Protocol):
    """The sanitizer's code in one kernel: `watcher.Sanitizing`."""

    e: Watched
    clocks: Clocks
    layout: BlockState
    exact: ExactShadow
    one_sided: dict[int, Instruction]
    going_on: set[int]
    """Blocks from which a thread does more than to exit."""

    @property
    def p(self) -> Val:
        """What is kept of the block."""

    def site(self) -> Val:
        """The present instruction as records name it."""

    def number(self, ins: Instruction) -> int:
        """An instruction as records name it."""

    def me(self, lanes: Val) -> Val:
        """A record of the first of these lanes, for findings that are not about memory."""

    def count(self, field: int, by: Val) -> None:
        """Adds to a counter of the worker."""

    def way(self, writes: bool, nbytes: int, needs: int) -> Way:
        """How the present instruction touches so many bytes."""

    def touch(self, a: Address, way: Way, lanes: Val, values: Values = None) -> None:
        """One access of some lanes, in each space that it may be to."""
