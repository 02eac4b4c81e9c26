"""A process of the sweep: measures the calls that it is given."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from weft import progress
from weft.cluster.processes import Answer
from weft.ops.core.native import build
from weft.ops.sweep import time
from weft.ops.sweep.case import Case, find
from weft.ops.sweep.cases import CASES
from weft.ops.sweep.compiled import Compile, Compiler
from weft.ops.sweep.draw import Call
from weft.ops.sweep.gpu_lock import GpuLock
from weft.ops.sweep.measure import PLAIN, Broken, Meter, Method
from weft.values.sweep import SweptCall


@dataclass(frozen=True)
class Task:
    """A call to measure.

    failed   the contenders that are known to fail, and why
    compile  False: torch.compile has nothing to gain, and is not timed
    """

    case: str
    call: Call
    seed: int
    failed: dict[str, str] = field(default_factory=dict)
    method: Method = PLAIN
    compile: bool = True

    def __str__(self) -> str:
        return f"{self.case} {self.call}"


def swept(name: str) -> Case:
    """The case of the sweep with a name."""
    return find(name, CASES)


@dataclass(frozen=True)
class SweepJob:
    """The settings of all processes of a sweep.

    folder   where processes take turns on the GPU; None: each has a GPU of its own
    compile  None: torch.compile is not timed
    until    the time, by time.time(), at which compiling ends
    always   True: also short calls are compiled
    cases    the case of a name
    cudnn_benchmark  True: cuDNN times its algorithms for a convolution, and takes the fastest
    """

    folder: Path | None
    device: str = "cuda"
    compile: Compile | None = torch.compile
    until: float = math.inf
    clock: time.Clock = time.as_called
    always: bool = False
    cases: Callable[[str], Case] = swept
    cudnn_benchmark: bool = False

    def start(self) -> Callable[[Task], Answer]:
        """Prepare this process, and return the function that measures a call in it."""
        lock = GpuLock(self.folder)
        progress.around = lock.paused
        torch.set_num_threads(1)  # the other cores belong to other processes
        torch.backends.cudnn.allow_tf32 = False  # a peer computes as precisely as weft
        torch.backends.cudnn.benchmark = self.cudnn_benchmark
        compiler = None
        if self.compile is not None:
            compiler = Compiler(self.until, self.compile, lock=lock)
            if self.always:
                compiler = replace(compiler, least=0.0, least_backward=0.0)
        if self.device == "cuda":
            _load_libraries(compiler)
            build.started().wait()  # calls are made in Python until it has ended
        meter = Meter(self.device, compiler, self.clock, lock)
        return functools.partial(measured, meter, cases=self.cases)


def measured(meter: Meter, task: Task, cases: Callable[[str], Case] = swept) -> Answer:
    """The result of a call, or what to do after a CUDA error."""
    case = cases(task.case)
    if not task.compile:
        meter = replace(meter, compiler=None)
    try:
        return Answer(meter(case, task.call, task.seed, task.failed, task.method))
    except Broken as broken:
        if broken.who not in ("weft", "reference"):  # weft can be timed without it
            return Answer(again=replace(task, failed=broken.result.failed), broken=True)
        return Answer(broken.result, broken=True)
    except Exception as error:  # the sweep goes on without this call
        failed = {**task.failed, "sweep": f"{type(error).__name__}: {error}"}
        return Answer(
            SweptCall(case.name, str(task.call), "", math.nan, False, failed=failed), broken=True
        )


def _load_libraries(compiler: Compiler | None) -> None:
    """Make the first call of CUDA's libraries, which load for seconds, and of Inductor."""
    import torch._inductor.config as inductor

    inductor.compile_threads = 1  # Inductor starts no processes of its own
    x = torch.randn(2, 4, 16, 16, device="cuda")
    for dtype in (torch.float32, torch.float16, torch.float64):
        y = x.to(dtype)
        torch.matmul(y, y)
        torch.nn.functional.conv2d(y, y)
        torch.nn.functional.scaled_dot_product_attention(y, y, y)
    torch.fft.rfft(x)
    if compiler is not None:
        torch.compile(lambda t: t + 1, dynamic=False)(x)
    torch.cuda.synchronize()
