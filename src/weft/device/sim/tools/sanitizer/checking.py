"""The watcher's interface for the checks of the sanitizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from weft.device.sim.address import Address
from weft.device.sim.observe import Watched
from weft.device.sim.tools.sanitizer.clocks import Clocks
from weft.device.sim.tools.sanitizer.layout import BlockState
from weft.device.sim.tools.sanitizer.shadow.exact import ExactShadow
from weft.device.sim.tools.sanitizer.shadow.records import AccessPattern
from weft.ir import Val
from weft.ptx.model import Instruction

Values = Sequence[Val] | None
"""The values that a store writes, if they are known."""


class Checking(Protocol):
    """The sanitizer's code in one kernel: `watcher.Sanitizing`."""

    e: Watched
    clocks: Clocks
    layout: BlockState
    exact: ExactShadow
    one_sided: dict[int, Instruction]
    going_on: set[int]
    """Blocks after which a thread does more than exit."""

    @property
    def p(self) -> Val:
        """The state of the block."""

    def site(self) -> Val:
        """The present instruction as records name it."""

    def number(self, ins: Instruction) -> int:
        """An instruction as records name it."""

    def me(self, lanes: Val) -> Val:
        """A record of the first of these lanes, for findings that are not about memory."""

    def count(self, field: int, by: Val) -> None:
        """Add to a counter of the worker."""

    def way(self, writes: bool, nbytes: int, needs: int) -> AccessPattern:
        """The access pattern of the current instruction for a number of bytes."""

    def touch(self, a: Address, way: AccessPattern, lanes: Val, values: Values = None) -> None:
        """One access of some lanes, in each space that it may be to."""
