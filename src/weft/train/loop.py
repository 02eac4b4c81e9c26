"""Epochs of training: steps, evaluation, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.errors import ArgumentError
from weft.train.batches import OnDevice, OnHost, order
from weft.train.data import Digits, Mnist
from weft.train.network import Own
from weft.train.step import Parts, Step

TESTED = 1000
"""Images of a batch of the evaluation."""


@dataclass(frozen=True)
class Settings:
    """How to train.

    steps  at the most; 0: all of the epochs
    host   True if the images stay in host memory
    graph  True if the step is captured as a CUDA graph
    """

    epochs: int = 1
    batch: int = 64
    rate: float = 0.05
    momentum: float = 0.9
    seed: int = 0
    steps: int = 0
    host: bool = True
    graph: bool = True


@dataclass
class History:
    """What a training gave.

    losses    after each step
    accuracy  on the test images, after each epoch
    seconds   of each epoch's steps, without the evaluation
    first     seconds of the first step, in which kernels are compiled
    stopped   True if the user stopped it
    """

    name: str
    losses: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    first: float = 0.0
    stopped: bool = False

    @property
    def per_step(self) -> float:
        """Seconds of a step, without the first one; 0 if there is no other."""
        later = len(self.losses) - 1
        return (sum(self.seconds) - self.first) / later if later > 0 and self.seconds else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The history for JSON."""
        return {
            "name": self.name, "losses": self.losses, "accuracy": self.accuracy,
            "seconds": self.seconds, "first": self.first, "stopped": self.stopped,
        }  # fmt: skip


Tell = Callable[[int, float], None]
"""Called after each step: its number, and the loss of the last step whose loss is known."""


class Training:
    """A training that can be stopped and go on.

    done  steps so far
    """

    def __init__(self, parts: Parts, data: Mnist, settings: Settings, device: torch.device) -> None:
        if not 0 < settings.batch <= len(data.training):
            raise ArgumentError(
                "a batch must have an image and at most all of them", got=str(settings.batch),
                allowed=f"1 to {len(data.training)}",
            )  # fmt: skip
        self.parts, self.data, self.settings, self.device = parts, data, settings, device
        self.history = History(parts.name)
        self.step = Step(parts, settings.batch, device, settings.graph)
        self.source: OnHost | OnDevice = (
            OnHost(data.training, device, settings.batch)
            if settings.host
            else OnDevice(data.training, device)
        )
        self.done = 0

    @property
    def _layers(self) -> torch.nn.Module:
        """The layers as in PyTorch, so that checkpoints of both load both ways."""
        layers: torch.nn.Module = getattr(self.parts.model, "layers", self.parts.model)
        return layers

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch; images that do not fill a batch are left out."""
        return len(self.data.training) // self.settings.batch

    @property
    def total(self) -> int:
        """Steps of the whole training."""
        whole = self.per_epoch * self.settings.epochs
        return min(whole, self.settings.steps) if self.settings.steps else whole

    def run(self, tell: Tell = lambda number, loss: None) -> History:
        """Trains to the end, or until the user interrupts."""
        try:
            while self.done < self.total:
                self._epoch(tell)
        except KeyboardInterrupt:
            self.history.stopped = True
        return self.history

    def _epoch(self, tell: Tell) -> None:
        """The remaining steps of an epoch, and the evaluation."""
        epoch, first = divmod(self.done, self.per_epoch)
        chosen = order(len(self.data.training), epoch, self.settings.seed)
        chosen = chosen[first * self.settings.batch :]
        last = min(self.per_epoch, self.total - epoch * self.per_epoch)
        kept = torch.zeros(last - first, pin_memory=self.device.type == "cuda")
        self.parts.model.train()
        begin, count = time.perf_counter(), 0
        try:
            for fill in self.source.batches(chosen, self.settings.batch):
                if count == last - first:
                    break
                fill(self.step.pixels, self.step.classes)
                self.step()
                kept[count].copy_(self.step.loss, non_blocking=True)
                if not self.history.first:
                    synchronize(self.device)
                    self.history.first = time.perf_counter() - begin
                self.done, count = self.done + 1, count + 1
                tell(self.done, float(kept[max(count - 2, 0)]))
        finally:
            synchronize(self.device)
            self.history.losses += kept[:count].tolist()
        self.history.seconds.append(time.perf_counter() - begin)
        self.history.accuracy.append(accuracy(self.parts.model, self.data.test, self.device))

    # ---- checkpoints ---------------------------------------------------------------------------
    def save(self, path: Path) -> None:
        """Writes a checkpoint from which `load` goes on."""
        if isinstance(self.parts.model, Own):
            self.parts.model.count(self.done)
        state = {
            "model": self._layers.state_dict(), "optimiser": self.parts.optimiser.state_dict(),
            "done": self.done, "history": self.history.to_dict(), "seed": self.settings.seed,
            "batch": self.settings.batch,
        }  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path)

    def load(self, path: Path) -> None:
        """Goes on where a checkpoint was written."""
        if not path.is_file():
            raise ArgumentError("there is no such checkpoint", got=str(path))
        state = torch.load(path, map_location=self.device, weights_only=True)
        same = (self.settings.seed, self.settings.batch)
        if (state["seed"], state["batch"]) != same:
            raise ArgumentError(
                f"{path} is of another training",
                got=f"seed {state['seed']}, batch {state['batch']}",
                allowed=f"seed {same[0]}, batch {same[1]}", next="pass --seed and --batch as there",
            )  # fmt: skip
        self._layers.load_state_dict(state["model"])
        self.parts.optimiser.load_state_dict(state["optimiser"])
        self.done, self.history = state["done"], History(**state["history"])
        self.history.stopped = False


def synchronize(device: torch.device) -> None:
    """Waits until a GPU has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def accuracy(model: torch.nn.Module, digits: Digits, device: torch.device) -> float:
    """The part of the images that a model recognises."""
    source, every = OnDevice(digits, device), np.arange(len(digits), dtype=np.int32)
    model.eval()
    right = 0
    with torch.no_grad():
        for start in range(0, len(digits), TESTED):
            count = min(TESTED, len(digits) - start)
            pixels = torch.empty(count, 1, 28, 28, device=device)
            classes = torch.empty(count, dtype=torch.int64, device=device)
            for fill in source.batches(every[start : start + count], count):
                fill(pixels, classes)
            right += int((model(pixels).argmax(1) == classes).sum())
    return right / len(digits)
