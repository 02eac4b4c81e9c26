"""Control flow, barriers and fences; branches are carried out by the device's own scheduling."""

from __future__ import annotations

import functools

from weft.ptx.isa.columns import Control, Ordering, Participants, Waits, WorkUnit
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

_FENCE = "parallel-synchronization-and-communication-instructions-membar"
_RESTRICT = "sync_restrict::shared::cta sync_restrict::shared::cluster"
_SCOPES = "cta cluster gpu sys"
_fence = functools.partial(
    instruction, manual=_FENCE, warp=True, work=WorkUnit.SYNC, ordering=Ordering.FENCE
)
_BAR = "parallel-synchronization-and-communication-instructions-bar"


def _at_block_end(w: Warp, ins: Instruction) -> None:
    """Do nothing: the end of the block branches, returns or exits."""


for _syntax, _page, _control in (
    ("bra{.uni}  target", "bra", Control.BRANCH),
    ("brx.idx{.uni}  a, targets", "brx-idx", Control.TABLE),
    ("ret{.uni}", "ret", Control.RETURN),
    ("exit", "exit", Control.EXIT),
):
    _manual = f"control-flow-instructions-{_page}"
    instruction(_syntax, manual=_manual, warp=True, control=_control)(_at_block_end)


@instruction(
    "call{.uni}  d, target, arguments",
    manual="control-flow-instructions-call",
    warp=True,
    control=Control.CALL,
    notes="calls inside the module are control flow after linking; what is left is the host's",
)
def call(w: Warp, ins: Instruction) -> None:
    w.call(ins)


@instruction("trap", manual="miscellaneous-instructions-trap", warp=True, control=Control.TRAP)
def trap(w: Warp, ins: Instruction) -> None:
    w.trap(ins)


@instruction("brkpt", manual="miscellaneous-instructions-brkpt", warp=True, control=Control.TRAP)
def brkpt(w: Warp, ins: Instruction) -> None:
    w.trap(ins)


@instruction(
    "pmevent{.mask}  a",
    work=WorkUnit.CONTROL,
    manual="miscellaneous-instructions-pmevent",
    warp=True,
    mask="mask",
)
def pmevent(w: Warp, ins: Instruction, *, mask: str) -> None:
    """Do nothing: there is no profiler that counts the event."""


@instruction(
    "nanosleep.u32  t",
    work=WorkUnit.CONTROL,
    manual="miscellaneous-instructions-nanosleep",
    warp=True,
    waits=Waits.TIME,
)
def nanosleep(w: Warp, ins: Instruction) -> None:
    """Do nothing: a loop around it lets others run; the time itself has no meaning here."""


def _barrier(w: Warp, ins: Instruction) -> None:
    w.barrier(ins, "sync")


def _arrive(w: Warp, ins: Instruction) -> None:
    w.barrier(ins, "arrive")


def _reduce(w: Warp, ins: Instruction, *, kind: str, type: str) -> None:
    w.barrier(ins, "red")


# `bar` is the older spelling of `barrier.aligned`: the same operations under several names
for _base, _word in (("bar", "{.aligned}"), ("barrier", ""), ("barrier", ".aligned")):
    _row = functools.partial(
        instruction,
        manual=_BAR, warp=True, work=WorkUnit.SYNC, participants=Participants.BLOCK,
        aligned=bool(_word),
    )  # fmt: skip
    _row(f"{_base}{{.cta}}.sync{_word}  a{{, b}}", waits=Waits.PARTICIPANTS)(_barrier)
    _row(f"{_base}{{.cta}}.arrive{_word}  a{{, b}}")(_arrive)
    _row(
        f"{_base}{{.cta}}.red.kind{_word}.type  d, a{{, b}}, c",
        kind="popc and or",
        type="u32 pred",
        waits=Waits.PARTICIPANTS,
    )(_reduce)


@instruction(
    "bar.warp.sync  membermask",
    work=WorkUnit.SYNC,
    manual="parallel-synchronization-and-communication-instructions-bar-warp-sync",
    warp=True,
)
def bar_warp(w: Warp, ins: Instruction) -> None:
    w.fence()


@_fence("membar{.proxy}.level", level="cta gl sys alias")
def membar(w: Warp, ins: Instruction, *, level: str) -> None:
    w.fence()


@_fence(
    "fence{.order}{.restrict}{.scope}",
    order="sc acq_rel acquire release",
    scope=_SCOPES,
    restrict=_RESTRICT,
)
@_fence("fence.mbarrier_init.release.cluster")
@_fence(
    "fence.proxy.kind{.order}{.restrict}{.scope}{.space}  {, [a]}{, size}",
    kind="alias async async::generic tensormap::generic",
    order="acquire release",
    scope=_SCOPES,
    restrict=_RESTRICT,
    space="global shared::cta shared::cluster",
    ordering=Ordering.PROXY_FENCE,
)
def fence(w: Warp, ins: Instruction, **words: str) -> None:
    w.fence()


@instruction(
    "griddepcontrol.action",
    work=WorkUnit.SYNC,
    manual="parallel-synchronization-and-communication-instructions-griddepcontrol",
    action="wait launch_dependents",
    warp=True,
)
def griddepcontrol(w: Warp, ins: Instruction, *, action: str) -> None:
    """Do nothing: launches run one after the other, so dependencies have ended."""


@instruction(
    "setmaxnreg.action.sync.aligned.u32  n",
    work=WorkUnit.SYNC,
    manual="miscellaneous-instructions-setmaxnreg",
    action="inc dec",
    warp=True,
    participants=Participants.WARPGROUP,
)
def setmaxnreg(w: Warp, ins: Instruction, *, action: str) -> None:
    """Do nothing: the simulated GPU has as many registers as PTX names."""
