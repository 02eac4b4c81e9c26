"""The model of a PyTorch script that `weft profile` runs, on the simulated or on a real GPU."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn, Protocol

from weft.device import driver
from weft.device.models import GpuModel
from weft.device.selection import Selection
from weft.frontends import launches, script
from weft.frontends.files import must_be_script
from weft.frontends.pytorch import calls
from weft.frontends.pytorch.gpu_profile import GpuProfile
from weft.measure.layers.profile import step_profile
from weft.measure.profile.result import Profile
from weft.tasks import program
from weft.tasks.ended import ProgramEnded
from weft.values.layers import StepProfile
from weft.values.model import Call, MemoryLog, ModelProfile, ModuleFacts, ScriptEvent


class Found(Protocol):
    """A profiled model; `tuning` are seconds that autotuners took on a real GPU."""

    gpu: GpuModel
    tuning: float

    def calls(self, profiles: Sequence[Profile]) -> list[Call]:
        """The calls; kernels with the work of their profiles."""

    def peak(self) -> int:
        """The peak of allocated memory in bytes."""

    @property
    def watched(self) -> Watched:
        """The modules and events of the script."""


class Watched(Protocol):
    """The modules and events of a script, and its allocations."""

    events: Sequence[ScriptEvent]
    modules: Mapping[str, ModuleFacts]
    memory: Callable[[], MemoryLog]


class _Simulated:
    tuning = 0.0

    def __init__(self, gpu: GpuModel, profile: Any) -> None:
        self.gpu, self.watched = gpu, profile

    def calls(self, profiles: Sequence[Profile]) -> list[Call]:
        return calls.with_profiles(self.watched.calls, profiles, self.gpu)

    def peak(self) -> int:
        return int(self.watched.peak())


def watch(gpu: GpuModel, models: list[Found], mode: Any) -> None:
    """Profile the operations of torch, which the script has just imported."""
    from weft.frontends.pytorch import model_profile

    found = model_profile.ModelProfile(gpu)
    kernel = found.watch(mode)
    launches.recorders.append(lambda name, launch, arguments: kernel(name, arguments))

    def run(name: str, arguments: Any, launch: Callable[[], None]) -> None:
        kernel(name, arguments)
        launch()

    model_profile.follow_weft(mode, run)
    models.append(_Simulated(gpu, found))


def end() -> NoReturn:
    """End the process after a profile on a real GPU.

    Threads of CUPTI may still run, and have crashed the interpreter while it freed its memory.
    """
    atexit._run_exitfuncs()  # those of the script
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def on_gpu(
    file: Path, args: str, device: Selection, output: AbstractContextManager[None]
) -> Found | None:
    """Run a script on a real GPU; None if there is none, or no operation of PyTorch on it."""
    if not driver.count():
        return None
    must_be_script(file)
    device.first("a script chooses its GPU itself")
    found = GpuProfile(device.model)
    script.after_import(found.hooks())
    with output:
        code = script.run(str(file), program.words((), args), device="gpu")
    if code:
        raise ProgramEnded(code)
    return found if found.calls([]) else None


def value(file: Path, found: Found, profiles: Sequence[Profile]) -> ModelProfile:
    """The operations of a script; its kernels have the work of their profiles."""
    calls, watched = tuple(found.calls(profiles)), found.watched
    return ModelProfile(
        str(file), found.gpu.name, calls, found.peak(), found.tuning, tuple(watched.events),
        watched.modules, watched.memory(),
    )  # fmt: skip


def step(found: Found, model: ModelProfile) -> StepProfile | None:
    """The step of the script by layers; None if it calls no module."""
    return step_profile(model, found.gpu)
