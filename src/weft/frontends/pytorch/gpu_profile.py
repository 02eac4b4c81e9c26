"""Profiles a PyTorch script on a real GPU: runs it as it is and times what it launches.

Operations are seen and attributed as on the simulated GPU. Kernels of Triton, of `torch.compile`
and of weft are marked at their launch.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from weft.device.models import GpuModel
from weft.errors import Error
from weft.frontends.pytorch import gpu_times
from weft.values.model import Call, GpuKernel, Origin
from weft.values.profile import Profile

Hook = Callable[[], None]


class GpuProfile:
    """The profile of a script that runs in this process."""

    def __init__(self, gpu: GpuModel) -> None:
        self.gpu = gpu
        self.tuning = 0.0
        """Seconds that autotuners took on the GPU; their launches are in no row."""
        self._model: Any = None
        self._leave: Hook = _nothing
        self._profiler: Any = None
        self._record: Callable[..., None] | None = None
        self._count = 0

    def hooks(self) -> dict[str, Hook]:
        """Module -> what to run after the script imports it."""
        return {
            "torch": self._torch,
            "triton": self._triton,
            "torch._dynamo.device_interface": _dynamo,
            "torch._inductor.compile_fx": self._compiler,
            "torch._inductor.runtime.benchmarking": self._benchmarking,
            "torch._inductor.runtime.triton_heuristics": self._inductor,
        }

    def calls(self, profiles: Sequence[Profile] = ()) -> list[Call]:
        """The calls of the script with the kernels that the GPU ran; none without PyTorch."""
        return self._calls

    @functools.cached_property
    def _calls(self) -> list[Call]:
        if self._model is None or not self._model.calls:
            return []
        self._leave()
        times = self._times()
        self.tuning = times.tuning
        calls = [replace(c, kernels=times.marked.get(c.number, ())) for c in self._model.calls]
        # An operation that launched nothing is no row.
        return in_steps([c for c in calls if c.kernels], times.others)

    @property
    def watched(self) -> Any:
        """The modules and events of the script, and its allocations."""
        return self._model

    def peak(self) -> int:
        """The peak of allocated memory."""
        torch: Any = sys.modules["torch"]
        return int(torch.cuda.max_memory_allocated())

    def _times(self) -> gpu_times.KernelTimes:
        torch: Any = sys.modules["torch"]
        torch.cuda.synchronize()
        self._profiler.stop()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            self._profiler.export_chrome_trace(path)
            with open(path, encoding="utf-8", errors="replace") as file:
                times = gpu_times.read(json.load(file))
        if not times.marked:
            raise Error(
                "CUPTI reported no kernel",
                got=f"{len(self._model.calls)} operations on CUDA tensors",
                next="end other profilers of this process and of the GPU; CUPTI allows one",
            )
        return times

    @contextlib.contextmanager
    def mark(self, number: int | None = None) -> Iterator[int]:
        """Mark launches with a number, by default the next one."""
        torch: Any = sys.modules["torch"]
        if number is None:
            self._count += 1
            number = self._count
        with torch._C._profiler._RecordFunctionFast(f"{gpu_times.PREFIX}{number}"):
            yield number

    # ---- after imports ---------------------------------------------------------------------------
    def _torch(self) -> None:
        import torch

        from weft.frontends.pytorch import model_profile
        from weft.frontends.pytorch.gpu_operations import GpuOperations

        if not torch.cuda.is_available():
            return
        activities = torch.profiler.ProfilerActivity
        self._profiler = torch.profiler.profile(
            activities=[activities.CPU, activities.CUDA], acc_events=True
        )
        self._profiler.start()
        self._model = model_profile.ModelProfile(self.gpu)
        mode = GpuOperations(self.mark)
        self._record = self._model.watch(mode)
        mode.__enter__()
        self._leave = lambda: mode.__exit__(None, None, None)
        model_profile.follow_weft(mode, self._launch)

    def _launch(self, name: str, arguments: Sequence[Any], launch: Callable[[], Any]) -> Any:
        """Run a launch of a kernel and record it with its mark."""
        if self._record is None:
            return launch()
        with self.mark() as number:
            out = launch()
        self._record(name, arguments, number)
        return out

    def _triton(self) -> None:
        jit: Any = sys.modules["triton.runtime.jit"].JITFunction
        plain = jit.run

        @functools.wraps(plain)
        def run(kernel: Any, *args: Any, **options: Any) -> Any:
            if options.get("warmup"):
                return plain(kernel, *args, **options)
            return self._launch(kernel.__name__, args, lambda: plain(kernel, *args, **options))

        jit.run = run
        self._ignore(sys.modules["triton.runtime.autotuner"].Autotuner, "_bench")

    def _inductor(self) -> None:
        tuner: Any = sys.modules["torch._inductor.runtime.triton_heuristics"].CachingAutotuner
        plain = tuner.run

        @functools.wraps(plain)
        def run(kernel: Any, *args: Any, **options: Any) -> Any:
            name = kernel.inductor_meta.get("kernel_name") or kernel.fn.__name__
            return self._launch(name, args, lambda: plain(kernel, *args, **options))

        tuner.run = run
        for name in ("benchmark_all_configs", "coordinate_descent_tuning"):
            self._ignore(tuner, name)

    def _compiler(self) -> None:
        # It also times products with padded operands.
        self._ignore(sys.modules["torch._inductor.compile_fx"], "compile_fx")

    def _benchmarking(self) -> None:
        """Mark what the compiler times later, e.g. for a backward pass, as an autotuner's work."""
        for owner in vars(sys.modules["torch._inductor.runtime.benchmarking"]).values():
            if isinstance(owner, type) and "benchmark_gpu" in vars(owner):
                self._ignore(owner, "benchmark_gpu")

    def _ignore(self, owner: Any, name: str) -> None:
        """Mark what a function launches as the work of an autotuner."""
        plain = getattr(owner, name)

        @functools.wraps(plain)
        def ignored(*args: Any, **options: Any) -> Any:
            with self.mark(gpu_times.TUNING):
                return plain(*args, **options)

        setattr(owner, name, ignored)


def in_steps(calls: Sequence[Call], others: Sequence[GpuKernel]) -> list[Call]:
    """Add kernels that no call launched, to the steps in which the GPU ran them."""
    starts = sorted((c.kernels[0].start, c.moment) for c in calls if c.kernels)
    found = list(calls)
    for kernel in others:
        before = bisect.bisect_right(starts, kernel.start, key=lambda pair: pair[0])
        moment = starts[before - 1][1] if before else 0
        found.append(
            Call(
                kernel.name, Origin(), 0, 0, 0, 0, 0, kernel=True, kernels=(kernel,), moment=moment
            )
        )
    return found


def _nothing() -> None:
    """Do nothing: the hook before anything is installed."""


def _dynamo() -> None:
    from weft.frontends.pytorch import operations  # it imports torch, which the script does first

    operations.skip_dynamo()
