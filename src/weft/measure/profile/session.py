"""Profiles all launches inside a `with recording()` block; `weft profile` uses it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.device import models
from weft.device.models import GpuModel
from weft.device.sim.run import settings
from weft.device.sim.run.settings import LaunchRequest
from weft.errors import DeviceError
from weft.measure.profile import merge, record
from weft.measure.profile.profile import profile_launch
from weft.measure.profile.result import Profile
from weft.values.time.timeline import Activity

OnKernel = Callable[[int, Profile, LaunchRequest], None]
"""Called with the number of the profile that a launch was added to, its own profile, itself."""


class Recording:
    """Collects profiles; launches of one kernel and shape are merged.

    gpu      the model whose caches and limits apply; each kernel's by default
    kernel   profile only kernels of this name
    launch   profile only this one of those launches, counted from 0
    block, executions   as in `profile`
    seen     kernel -> the number of its launches, profiled or not
    fault    the error of a kernel that failed; then there is no report
    timeline    whether the activities of the program are recorded too; `on_kernel` is called after
                each profiled launch
    activities  what the program asked of the GPU, in order
    """

    def __init__(
        self,
        gpu: str | None = None,
        kernel: str | None = None,
        launch: int | None = None,
        block: int | None = None,
        executions: int = 0,
        timeline: bool = False,
    ) -> None:
        self._gpu: GpuModel | None = None if gpu is None else models.get(gpu)
        self._kernel, self._launch = kernel, launch
        self._block, self._executions = block, executions
        self.wanted = {"gpu": gpu, "kernel": kernel, "launch": launch, "timeline": timeline}
        self.timeline = timeline
        self.on_kernel: OnKernel | None = None
        self.activities: list[Activity] = []
        self._profiles: dict[tuple[object, ...], Profile] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._lock = threading.Lock()
        self.seen: dict[str, int] = {}
        self.fault = ""

    @property
    def profiles(self) -> list[Profile]:
        """The profiles in the order of first launches."""
        return list(self._profiles.values())

    def run(self, request: LaunchRequest) -> None:
        """Run one launch; profile it if it is selected."""
        plan = request.plan
        summary = plan.sim.kernels.get(plan.entry)
        if not self._wanted(summary.name if summary else plan.entry):
            request.run()
            return
        model = self._gpu or plan.sim.model
        with self._lock:  # launches of one plan share its instrumented code
            try:
                profile = profile_launch(
                    plan.sim, plan.entry, plan.config, model, request.run,
                    self._block, self._executions,
                )  # fmt: skip
            except DeviceError as error:
                self.fault = self.fault or str(error)
                raise
            place = merge.key(profile)
            before = self._profiles.get(place)
            self._profiles[place] = profile if before is None else merge.add(before, profile)
            number = self._numbers.setdefault(place, len(self._numbers))
        if self.on_kernel is not None:
            self.on_kernel(number, profile, request)

    def to_record(self) -> dict[str, Any]:
        """The state as JSON, for `add_record`."""
        state = {"seen": self.seen, "fault": self.fault, "activities": self.activities}
        return {**record.dump(self.profiles), **state}

    def add_record(self, path: str) -> None:
        """Add the record of another process, if that process wrote one."""
        text = Path(path).read_text(encoding="utf-8")
        if text:
            record_data = json.loads(text)
            self.seen, self.fault = record_data["seen"], record_data["fault"]
            self.activities = [Activity(*row) for row in record_data["activities"]]
            for profile in record.load(path, Profile):
                self._profiles[merge.key(profile)] = profile

    def _wanted(self, kernel: str) -> bool:
        with self._lock:
            # Counted even when not profiled, so that `launch` numbers do not depend on filters.
            self.seen[kernel] = self.seen.get(kernel, 0) + 1
            number = sum(n for k, n in self.seen.items() if self._named(k)) - 1
        return self._named(kernel) and self._launch in (None, number)

    def _named(self, kernel: str) -> bool:
        return self._kernel is None or self._kernel in (kernel, plain(kernel))


def plain(kernel: str) -> str:
    """A kernel's name without namespaces and template arguments."""
    return kernel.partition("<")[0].rpartition("::")[2]


@contextmanager
def recording(recorder: Recording, *, one_thread: bool = False) -> Iterator[Recording]:
    """Profile launches on simulated GPUs inside of the block: of this process, or this thread."""
    used = settings.in_this_thread if one_thread else settings.in_this_process
    with used(recorder):
        yield recorder
