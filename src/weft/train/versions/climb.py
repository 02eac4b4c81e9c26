"""Runs the versions of the training step, checks each against the one before, times their parts."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from weft.device.sim.run.ahead import compile_ahead
from weft.device.sim.run.draft import drafts
from weft.train.data import Digits, Mnist, load
from weft.train.loop import Training
from weft.train.settings import Settings, of_torch
from weft.train.versions.rows import VERSIONS, Version
from weft.values.training import Reached

Weights = dict[str, torch.Tensor]
STEPS = 3
"""Steps whose losses and weights are compared."""
RATE = 0.01
"""Small, so that roundings do not grow from step to step."""
BATCH = {"cuda": 64, "cpu": 8}
"""Images of a step by the type of the device: the simulated GPU is slow."""


def climb(
    device: torch.device, to: int | None = None, progress: Callable[[str], None] = lambda name: None
) -> list[Reached]:
    """Run the versions up to number `to`."""
    # The sample in the device's memory: loading takes no part in what is compared.
    settings = Settings(
        batch=BATCH[device.type], steps=STEPS, rate=RATE, schedule="constant", host=False
    )
    wanted = VERSIONS if to is None else VERSIONS[: to + 1]
    if device.type == "cuda":
        return _climb(wanted, settings, device, progress)
    with drafts():  # few steps of small batches: a fast compile matters more than fast code
        _compile(wanted, settings, device)
        return _climb(wanted, settings, device, progress)


def _climb(
    wanted: Sequence[Version],
    settings: Settings,
    device: torch.device,
    progress: Callable[[str], None],
) -> list[Reached]:
    reached: list[Reached] = []
    before: tuple[list[float], Weights] | None = None
    with of_torch(settings.precision):
        for version in wanted:
            progress(version.title)
            training = _training(version, settings, device)
            history, weights = training.run(), _weights(training)
            apart = _apart(before or (history.losses, weights), (history.losses, weights))
            before = history.losses, weights
            training.time_parts()  # it changes the weights
            assert history.times is not None
            reached.append(
                Reached(version.title, version.idea, history.losses, apart, history.times)
            )
    return reached


def machine(device: torch.device) -> str:
    """The machine that the times were measured on."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"the simulated GPU, and a CPU ({platform.machine()})"


def _training(version: Version, settings: Settings, device: torch.device) -> Training:
    place = version.device(device)
    return Training(version.make(settings, place), _untested(), settings, place)


def _untested() -> Mnist:
    """The sample without images to test with: accuracy after three steps means nothing."""
    found = load(None)
    return replace(found, test=Digits(found.test.images[:0], found.test.labels[:0]))


def _compile(versions: Sequence[Version], settings: Settings, device: torch.device) -> None:
    """Compile the kernels of all versions for the simulated GPU, on all cores."""
    with compile_ahead():
        for version in versions:
            _training(version, settings, device).step.eager()


def _weights(training: Training) -> Weights:
    model = getattr(training.model, "layers", training.model)
    return {name: p.detach().cpu().clone() for name, p in model.named_parameters()}


def _apart(a: tuple[list[float], Weights], b: tuple[list[float], Weights]) -> tuple[float, float]:
    """The largest differences of losses and of weights."""
    losses = max(abs(x - y) for x, y in zip(a[0], b[0], strict=True))
    return losses, max(float((a[1][name] - w).abs().max()) for name, w in b[1].items())
