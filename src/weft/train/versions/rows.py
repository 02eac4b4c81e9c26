"""The five versions of the training step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from weft.train.contenders import PEERS, Make, weft_parts, weft_step
from weft.train.settings import Settings
from weft.train.step import TrainingStep
from weft.train.versions import TITLES
from weft.train.versions.naive_step import NaiveStep
from weft.train.versions.numpy_step import NumpyStep

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Version:
    """One version: what it is called, what it adds to the one before, and what makes its step.

    host  True if it runs on the CPU, whatever the device
    """

    title: str
    idea: str
    make: Make
    host: bool = False

    def device(self, device: torch.device) -> torch.device:
        return CPU if self.host else device


def _fused(settings: Settings, device: torch.device) -> TrainingStep:
    return TrainingStep(weft_parts(settings, device), settings.batch, device, graph=False)


VERSIONS = (
    Version(TITLES[0], "forward and backward as array expressions on the CPU: every operation, and "
            "every gradient, is written out",
            lambda settings, device: NumpyStep(settings), host=True),
    Version(TITLES[1], "layers and automatic differentiation: cuDNN's and cuBLAS's kernels on a "
            "GPU, the CPU's libraries elsewhere", PEERS["PyTorch"]),
    Version(TITLES[2], "one kernel per operation, one thread per result, all operands from "
            "global memory", NaiveStep),
    Version(TITLES[3], "a block of four layers is one op, tiles are in shared memory and in "
            "registers, one launch updates all parameters", _fused),
    Version(TITLES[4], "seven kernels that are made for this network, as weft train runs them; on "
            "a GPU they are one CUDA graph, so Python launches nothing else",
            lambda s, d: weft_step(replace(s, graph=True), d)),
)  # fmt: skip
