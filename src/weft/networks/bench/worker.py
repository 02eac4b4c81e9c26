"""A contender of a case, which answers requests; `serve` does so in a process of its own."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from weft.networks.bench.contenders import CONTENDERS
from weft.networks.bench.step import NetworkStep
from weft.values.networks import NetworkCase

WARM_UP = 2
"""Steps of a turn before the clock starts: the memory that others had is allocated again."""
KERNELS = 40
"""The kernels of a step that are listed: the longest."""
SHOWN = 200
"""Characters of a reason or of a kernel's name."""


class Worker:
    """A contender of a case. Its methods are the requests of a session.

    device  "cuda", or "cpu": then weft's kernels run on the simulated GPU
    """

    def __init__(self, case: NetworkCase, name: str, device: str) -> None:
        self._case, self._name, self._device = case, name, torch.device(device)
        self._step: NetworkStep | None = None

    def prepare(self, count: int) -> tuple[float, list[float]]:
        """Make the first steps; return the seconds of the first one, and the losses of all.

        They include the compilation of kernels, not the time to make the network.
        """
        step = self._step = NetworkStep(self._case, CONTENDERS[self._name], self._device)
        self._settle()
        begin = time.perf_counter()
        step()
        self._settle()
        first, losses = time.perf_counter() - begin, [step.judge()]
        for _ in range(count - 1 if self._case.training else 0):
            step()
            losses.append(step.judge())
        self._free()
        return first, losses

    def time(self, steps: int) -> tuple[float, int, int]:
        """Seconds of a step, and the most bytes of tensors and of the allocator."""
        assert self._step is not None
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        seconds = self._timed(self._step, steps)
        memory = reserved = 0
        if self._device.type == "cuda":
            memory, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        self._free()
        return seconds, memory, reserved

    def capture(self) -> float:
        """Capture the step as a graph; return how far its losses are from those as called."""
        assert self._step is not None
        apart = self._step.capture()
        self._free()
        return apart

    def replay(self, steps: int) -> float:
        """Seconds of a step in its graph."""
        assert self._step is not None
        return self._timed(self._step.replay, steps)

    def kernels(self) -> list[tuple[str, int, float]]:
        """The kernels of a step with their launches and microseconds, the longest first."""
        assert self._step is not None
        from torch.profiler import ProfilerActivity, profile

        self._step()
        self._settle()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            self._step()
            self._settle()
        found = [
            (event.key[:SHOWN], event.count, round(event.self_device_time_total, 1))
            for event in profiler.key_averages()
            if event.self_device_time_total
        ]
        return sorted(found, key=lambda row: -row[2])[:KERNELS]

    def _timed(self, step: Callable[[], None], steps: int) -> float:
        for _ in range(WARM_UP):
            step()
        self._settle()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        self._settle()
        return (time.perf_counter() - begin) / steps

    def _settle(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def _free(self) -> None:
        """Leave the memory that is not in use to the other processes."""
        if self._device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()


def serve(pipe: Connection, case: NetworkCase, name: str, device: str) -> None:
    """Answer requests (method, arguments) by (True, result) or (False, reason)."""
    warnings.simplefilter("ignore")  # the parent reports
    torch.backends.cudnn.benchmark = True
    # In fp32, PyTorch computes as precisely as weft.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    worker = Worker(case, name, device)
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(answer(worker, method, arguments))


def answer(worker: Worker, method: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """The result of a request, or the reason why there is none."""
    try:
        return True, getattr(worker, method)(*arguments)
    except Exception as error:  # the other contenders go on
        first = str(error).strip().partition("\n")[0]
        return False, f"{type(error).__name__}: {first}"[:SHOWN]
