"""Vector clocks, one per warp of a block; joined at every synchronisation.

Warp w keeps, for every warp u of its block, the clock up to which u's accesses are ordered before
what w does now. A barrier of the block joins the clocks of the warps that meet there; a
synchronisation of all lanes advances the warp's own clock. Where only some lanes of a warp
synchronise, these lanes are ordered, and the vector's entry for the warp itself stays behind its
clock. `order` has the parts: vectors, fences and atomics, barriers of the block, mbarriers.
"""

from __future__ import annotations

from weft.device.sim.tools.sanitizer.order.mbarriers import MbarrierClocks


class Clocks(MbarrierClocks):
    """Code that keeps the clocks of a kernel."""
