"""Runs the versions of the training step, checks each against the one before, times their parts."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from weft.device.sim.run.ahead import compile_ahead
from weft.train.data import load
from weft.train.loop import Training
from weft.train.settings import Settings, of_torch
from weft.train.times import Times
from weft.train.versions.rows import VERSIONS, Version

STEPS = 3
"""Steps whose losses and weights are compared."""
WITHIN = 1e-3
"""The largest difference that is right: of a loss, and of a weight."""
RATE = 0.01
"""Small, so that roundings do not grow from step to step."""
BATCH = {"cuda": 64, "cpu": 8}
"""Images of a step by the type of the device: the simulated GPU is slow."""


@dataclass(frozen=True)
class Reached:
    """What one version did.

    apart  the largest differences to the version before: of losses, and of weights
    """

    title: str
    idea: str
    losses: list[float]
    apart: tuple[float, float]
    times: Times

    @property
    def right(self) -> bool:
        return max(self.apart) <= WITHIN

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "right": self.right}


def climb(
    device: torch.device, to: int | None = None, progress: Callable[[str], None] = lambda name: None
) -> list[Reached]:
    """Runs the versions up to number `to`."""
    settings = Settings(batch=BATCH[device.type], steps=STEPS, rate=RATE)
    wanted = VERSIONS if to is None else VERSIONS[: to + 1]
    if device.type == "cpu":
        _compile(wanted, settings, device)
    reached: list[Reached] = []
    before: Training | None = None
    with of_torch(settings.precision):
        for version in wanted:
            progress(version.title)
            training = _training(version, settings, device)
            history, weights = training.run(), _weights(training)
            apart = (0.0, 0.0)
            if before is not None:
                apart = _apart(before.history.losses, history.losses), _largest(last, weights)
            training.time_parts()
            assert history.times is not None
            reached.append(
                Reached(version.title, version.idea, history.losses, apart, history.times)
            )
            before, last = training, weights
    return reached


def machine(device: torch.device) -> str:
    """What the times were measured on."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"the simulated GPU, and a CPU ({platform.machine()})"


def _training(version: Version, settings: Settings, device: torch.device) -> Training:
    place = version.device(device)
    return Training(version.make(settings, place), _small(), settings, place)


def _small() -> Any:
    """The sample, with few images to test with: accuracy after three steps means nothing."""
    from dataclasses import replace

    from weft.train.data import Digits

    found = load(None)
    return replace(found, test=Digits(found.test.images[:1], found.test.labels[:1]))


def _compile(versions: Sequence[Version], settings: Settings, device: torch.device) -> None:
    """Compiles the kernels of all versions for the simulated GPU, on all cores."""
    with compile_ahead():
        for version in versions:
            _training(version, settings, device).step.eager()


def _weights(training: Training) -> dict[str, torch.Tensor]:
    model = getattr(training.model, "layers", training.model)
    return {name: p.detach().cpu().clone() for name, p in model.named_parameters()}


def _apart(a: Sequence[float], b: Sequence[float]) -> float:
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def _largest(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    return max(float((a[name] - b[name]).abs().max()) for name in a)
