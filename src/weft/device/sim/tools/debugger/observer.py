"""The debugger as an observer: its control block, the areas of warps, and calls from the code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

import numpy as np

from weft.device.sim.observe import Watched
from weft.device.sim.run.observation import Observation
from weft.device.sim.tools.debugger.layout import ControlFields, ShadowLayout
from weft.device.sim.tools.debugger.watcher import Condition, DebugWatcher
from weft.records import dataclass

_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32,
    ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int32,
)  # fmt: skip
NEVER = -1


@dataclass(frozen=True, slots=True)
class Hit:
    """A call from the code: a warp in a slot, its lanes, and the instruction that comes next."""

    reason: int
    slot: int
    warp: int
    lanes: int
    local: int
    index: int


class DebugObserver:
    """One launch under the debugger.

    called      receives each hit in the thread that runs the launch; False ends the launch
    conditions  instruction -> condition that the code itself evaluates
    """

    alone = True

    def __init__(
        self,
        shadow: ShadowLayout,
        instructions: int,
        called: Callable[[Hit], bool],
        conditions: Mapping[int, tuple[str, Condition]],
        *,
        nans: bool = False,
    ) -> None:
        texts = [f"{index}: {text}" for index, (text, _) in sorted(conditions.items())]
        self.key = f"debugger {nans} {texts}"
        self._conditions = {index: emit for index, (_, emit) in conditions.items()}
        self._shadow, self._called, self._nans = shadow, called, nans
        self.failed: BaseException | None = None
        self.observation: Observation | None = None
        self.areas: dict[int, int] = {}
        self._callback = _SIGNATURE(self._call)
        self._control = np.zeros(ControlFields.TABLE + instructions, np.uint8)
        self.words = self._control[: ControlFields.TABLE].view(np.int64)
        self.table = self._control[ControlFields.TABLE :]
        host = ctypes.cast(self._callback, ctypes.c_void_p).value
        self.words[ControlFields.HOST // 8] = host or 0
        self.words[ControlFields.TARGET // 8] = NEVER

    @property
    def entered(self) -> int:
        """Basic blocks that warps have entered."""
        return int(self.words[ControlFields.ENTERED // 8])

    def watcher(self, e: Watched) -> DebugWatcher:
        return DebugWatcher(e, self._conditions, self._nans)

    def begin(self, observation: Observation) -> None:
        self.observation = observation
        observation.for_launch(self._control)
        memory = observation.for_slots(self._shadow.slot_bytes)
        slots = observation.slot_addresses()
        self.areas = {slot: m.ctypes.data for slot, m in zip(slots, memory, strict=True)}

    def end(self, observation: Observation) -> None:
        """Nothing: what the launch has left stays readable."""

    def _call(
        self, reason: int, worker: int, slot: int, warp: int, lanes: int, local: int, index: int
    ) -> int:
        try:
            return 0 if self._called(Hit(reason, slot, warp, lanes, local or 0, index)) else 1
        except BaseException as error:  # an exception cannot pass through compiled code
            self.failed = error
            return 1
