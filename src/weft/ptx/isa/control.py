"""Control flow, barriers and fences; branches are carried out by the device's own scheduling."""

from __future__ import annotations

from weft.ptx.isa.columns import Control, Participants, Waits
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

_BAR = "parallel-synchronization-and-communication-instructions-bar"


@instruction(
    "bra{.uni}  target",
    manual="control-flow-instructions-bra", warp=True, control=Control.BRANCH,
)  # fmt: skip
def bra(w: Warp, ins: Instruction) -> None:
    """Carried out at the end of the block."""


@instruction(
    "brx.idx{.uni}  a, targets",
    manual="control-flow-instructions-brx-idx", warp=True, control=Control.TABLE,
)  # fmt: skip
def brx(w: Warp, ins: Instruction) -> None:
    """Carried out at the end of the block."""


@instruction(
    "ret{.uni}",
    manual="control-flow-instructions-ret", warp=True, control=Control.RETURN,
)  # fmt: skip
def ret(w: Warp, ins: Instruction) -> None:
    """Carried out at the end of the block."""


@instruction(
    "exit",
    manual="control-flow-instructions-exit", warp=True, control=Control.EXIT,
)  # fmt: skip
def exit_(w: Warp, ins: Instruction) -> None:
    """Carried out at the end of the block."""


@instruction(
    "call{.uni}  d, target, arguments",
    manual="control-flow-instructions-call",
    warp=True, control=Control.CALL,
    notes="calls inside the module are control flow after linking; what is left is the host's",
)  # fmt: skip
def call(w: Warp, ins: Instruction) -> None:
    w.call(ins)


@instruction(
    "trap",
    manual="miscellaneous-instructions-trap", warp=True, control=Control.TRAP,
)  # fmt: skip
def trap(w: Warp, ins: Instruction) -> None:
    w.trap(ins)


@instruction(
    "brkpt",
    manual="miscellaneous-instructions-brkpt", warp=True, control=Control.TRAP,
)  # fmt: skip
def brkpt(w: Warp, ins: Instruction) -> None:
    w.trap(ins)


@instruction(
    "pmevent{.mask}  a", manual="miscellaneous-instructions-pmevent", warp=True, mask="mask"
)
def pmevent(w: Warp, ins: Instruction, *, mask: str) -> None:
    """Counts for a profiler that is not there."""


@instruction(
    "nanosleep.u32  t",
    manual="miscellaneous-instructions-nanosleep",
    warp=True, waits=Waits.TIME,
)  # fmt: skip
def nanosleep(w: Warp, ins: Instruction) -> None:
    """A loop around it lets others run; the time itself means nothing here."""


def _barrier(w: Warp, ins: Instruction) -> None:
    w.barrier(ins, "sync")


def _arrive(w: Warp, ins: Instruction) -> None:
    w.barrier(ins, "arrive")


def _reduce(w: Warp, ins: Instruction, *, kind: str, type: str) -> None:
    w.barrier(ins, "red")


# `bar` is the older spelling of `barrier.aligned`: the same operations under two names
for _base in ("bar", "barrier"):
    instruction(
        f"{_base}{{.cta}}.sync{{.aligned}}  a{{, b}}",
        manual=_BAR, warp=True, participants=Participants.BLOCK, waits=Waits.PARTICIPANTS,
    )(_barrier)  # fmt: skip
    instruction(
        f"{_base}{{.cta}}.arrive{{.aligned}}  a{{, b}}",
        manual=_BAR, warp=True, participants=Participants.BLOCK,
    )(_arrive)  # fmt: skip
    instruction(
        f"{_base}{{.cta}}.red.kind{{.aligned}}.type  d, a{{, b}}, c",
        manual=_BAR, kind="popc and or", type="u32 pred", warp=True,
        participants=Participants.BLOCK, waits=Waits.PARTICIPANTS,
    )(_reduce)  # fmt: skip


@instruction(
    "bar.warp.sync  membermask",
    manual="parallel-synchronization-and-communication-instructions-bar-warp-sync",
    warp=True,
)  # fmt: skip
def bar_warp(w: Warp, ins: Instruction) -> None:
    w.fence()


@instruction(
    "membar{.proxy}.level",
    manual="parallel-synchronization-and-communication-instructions-membar",
    level="cta gl sys alias", warp=True,
)  # fmt: skip
def membar(w: Warp, ins: Instruction, *, level: str) -> None:
    w.fence()


@instruction(
    "fence{.proxy}{.mbarrier_init}{.order}{.kind}{.restrict}{.scope}{.space}  {, [a]}{, size}",
    manual="parallel-synchronization-and-communication-instructions-membar",
    proxy="proxy", order="sc acq_rel acquire release",
    kind="alias async async::generic tensormap::generic", scope="cta cluster gpu sys",
    restrict="sync_restrict::shared::cta sync_restrict::shared::cluster",
    space="global shared::cta shared::cluster", warp=True,
)  # fmt: skip
def fence(w: Warp, ins: Instruction, **words: str) -> None:
    w.fence()


@instruction(
    "griddepcontrol.action",
    manual="parallel-synchronization-and-communication-instructions-griddepcontrol",
    action="wait launch_dependents", warp=True,
)  # fmt: skip
def griddepcontrol(w: Warp, ins: Instruction, *, action: str) -> None:
    """Launches follow one another: what this one depends on has ended, and nobody waits for it."""


@instruction(
    "setmaxnreg.action.sync.aligned.u32  n",
    manual="miscellaneous-instructions-setmaxnreg",
    action="inc dec", warp=True, participants=Participants.WARPGROUP,
)  # fmt: skip
def setmaxnreg(w: Warp, ins: Instruction, *, action: str) -> None:
    """Registers are the assembler's affair; the simulated GPU has as many as PTX names."""
