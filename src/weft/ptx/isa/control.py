"""Control flow, barriers and fences; branches are carried out by the device's own scheduling."""

from __future__ import annotations

from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction


@instruction("bra{.uni}  target", manual="control-flow-instructions-bra", warp=True)
def bra(w: Warp, ins: Instruction) -> None:
    """Carried out at the end of the block."""


@instruction("brx.idx{.uni}  a, targets", manual="control-flow-instructions-brx-idx", warp=True)
def brx(w: Warp, ins: Instruction) -> None:
    """Carried out at the end of the block."""


@instruction("ret{.uni}", manual="control-flow-instructions-ret", warp=True)
def ret(w: Warp, ins: Instruction) -> None:
    """Carried out at the end of the block."""


@instruction("exit", manual="control-flow-instructions-exit", warp=True)
def exit_(w: Warp, ins: Instruction) -> None:
    """Carried out at the end of the block."""


@instruction(
    "call{.uni}  d, target, arguments",
    manual="control-flow-instructions-call",
    warp=True, side_effect=True,
    notes="calls inside the module are control flow after linking; what is left is the host's",
)  # fmt: skip
def call(w: Warp, ins: Instruction) -> None:
    w.call(ins)


@instruction("trap", manual="miscellaneous-instructions-trap", warp=True, side_effect=True)
def trap(w: Warp, ins: Instruction) -> None:
    w.trap(ins)


@instruction("brkpt", manual="miscellaneous-instructions-brkpt", warp=True, side_effect=True)
def brkpt(w: Warp, ins: Instruction) -> None:
    w.trap(ins)


@instruction(
    "pmevent{.mask}  a", manual="miscellaneous-instructions-pmevent", warp=True, mask="mask"
)
def pmevent(w: Warp, ins: Instruction, *, mask: str) -> None:
    """Counts for a profiler that is not there."""


@instruction("nanosleep.u32  t", manual="miscellaneous-instructions-nanosleep", warp=True)
def nanosleep(w: Warp, ins: Instruction) -> None:
    """A loop around it lets others run; the time itself means nothing here."""


@instruction(
    "bar{.cta}.op{.aligned}  a{, b}",
    manual="parallel-synchronization-and-communication-instructions-bar",
    op="sync arrive", warp=True, side_effect=True,
)  # fmt: skip
def bar(w: Warp, ins: Instruction, *, op: str) -> None:
    w.barrier(ins, op)


@instruction(
    "bar{.cta}.red.kind{.aligned}.type  d, a{, b}, c",
    manual="parallel-synchronization-and-communication-instructions-bar",
    kind="popc and or", type="u32 pred", warp=True, side_effect=True,
)  # fmt: skip
def bar_red(w: Warp, ins: Instruction, *, kind: str, type: str) -> None:
    w.barrier(ins, "red")


@instruction(
    "barrier{.cta}.op{.aligned}  a{, b}",
    manual="parallel-synchronization-and-communication-instructions-bar",
    op="sync arrive", warp=True, side_effect=True,
)  # fmt: skip
def barrier(w: Warp, ins: Instruction, *, op: str) -> None:
    w.barrier(ins, op)


@instruction(
    "barrier{.cta}.red.kind{.aligned}.type  d, a{, b}, c",
    manual="parallel-synchronization-and-communication-instructions-bar",
    kind="popc and or", type="u32 pred", warp=True, side_effect=True,
)  # fmt: skip
def barrier_red(w: Warp, ins: Instruction, *, kind: str, type: str) -> None:
    w.barrier(ins, "red")


@instruction(
    "bar.warp.sync  membermask",
    manual="parallel-synchronization-and-communication-instructions-bar-warp-sync",
    warp=True, side_effect=True,
)  # fmt: skip
def bar_warp(w: Warp, ins: Instruction) -> None:
    w.fence()


@instruction(
    "membar{.proxy}.level",
    manual="parallel-synchronization-and-communication-instructions-membar",
    level="cta gl sys alias", warp=True, side_effect=True,
)  # fmt: skip
def membar(w: Warp, ins: Instruction, *, level: str) -> None:
    w.fence()


@instruction(
    "fence{.proxy}{.mbarrier_init}{.order}{.kind}{.restrict}{.scope}{.space}  {, [a]}{, size}",
    manual="parallel-synchronization-and-communication-instructions-membar",
    proxy="proxy", order="sc acq_rel acquire release",
    kind="alias async async::generic tensormap::generic", scope="cta cluster gpu sys",
    restrict="sync_restrict::shared::cta sync_restrict::shared::cluster",
    space="global shared::cta shared::cluster", warp=True, side_effect=True,
)  # fmt: skip
def fence(w: Warp, ins: Instruction, **words: str) -> None:
    w.fence()


@instruction(
    "griddepcontrol.action",
    manual="parallel-synchronization-and-communication-instructions-griddepcontrol",
    action="wait launch_dependents", warp=True, side_effect=True,
)  # fmt: skip
def griddepcontrol(w: Warp, ins: Instruction, *, action: str) -> None:
    """Launches follow one another: what this one depends on has ended, and nobody waits for it."""


@instruction(
    "setmaxnreg.action.sync.aligned.u32  n",
    manual="miscellaneous-instructions-setmaxnreg",
    action="inc dec", warp=True, side_effect=True,
)  # fmt: skip
def setmaxnreg(w: Warp, ins: Instruction, *, action: str) -> None:
    """Registers are the assembler's affair; the simulated GPU has as many as PTX names."""
