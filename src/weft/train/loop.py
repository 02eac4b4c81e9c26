"""Epochs of training: steps, evaluation, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from weft.device.sim.run.ahead import compile_ahead
from weft.errors import ArgumentError
from weft.train.batches import Fill, Images, order
from weft.train.data import Digits, Mnist
from weft.train.interrupts import Interrupts
from weft.train.parallel import TrainingGroup
from weft.train.settings import Settings
from weft.train.step import TrainingStep
from weft.train.times import part_times
from weft.values.training import History

TESTED = 1000
"""Images of a batch of the evaluation."""
PAUSE = {"cuda": 0.1, "cpu": 0.0}
"""Seconds between reports of progress: a step takes less time on a GPU than a report."""


Progress = Callable[[int, float], None]
"""Called after steps: the number of the last one, and the last loss that is known."""


class Training:
    """A training that can be stopped and go on.

    done  steps so far
    """

    def __init__(
        self, step: TrainingStep, data: Mnist, settings: Settings, device: torch.device,
        group: TrainingGroup = TrainingGroup(),  # noqa: B008  a frozen value
    ) -> None:  # fmt: skip
        most = len(data.training) // group.world
        if not 0 < settings.batch <= most:
            processes = f" in each of {group.world} processes" if group.world > 1 else ""
            raise ArgumentError(
                "a batch must have an image and at most all of them",
                got=f"{settings.batch}{processes}",
                allowed=f"1 to {most}",
            )
        self.step, self.data, self.settings, self.device = step, data, settings, device
        self.group = group
        self.history = History(step.parts.name)
        self.source = Images(data.training, device, on_host=settings.host)
        self.done = 0
        self._rate = -1.0  # not set yet

    @property
    def model(self) -> torch.nn.Module:
        return self.step.parts.model

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch; images that do not fill a batch are left out."""
        return len(self.data.training) // (self.settings.batch * self.group.world)

    @property
    def total(self) -> int:
        """Steps of the whole training."""
        whole = self.per_epoch * self.settings.epochs
        return min(whole, self.settings.steps) if self.settings.steps else whole

    def compile(self, step: TrainingStep) -> None:
        """Compile what the simulated GPU runs in a step and in the evaluation, on all cores.

        step  another one of the same kind, without communication; its weights are spoiled

        Of several processes the first one compiles; the others find the code in the cache.
        """
        if self.device.type == "cpu" and self.done < self.total and self.group.leads:
            step.parts.model.train()
            with compile_ahead():
                next(self._batches(0, 0))(step.pixels, step.classes)
                step.eager()
                accuracy(step.parts.model, self.data.test, self.device, self.group.alone)
        self.group.wait()

    def run(self, progress: Progress = lambda number, loss: None) -> History:
        """Train to the end, or until the user interrupts."""
        with Interrupts() as interrupts:
            while self.done < self.total and not self.history.stopped:
                self._epoch(progress, interrupts)
        return self.history

    def time_parts(self) -> None:
        """Time the parts of a step. The timed steps change the weights: call this last."""
        self.model.train()
        self.history.times = part_times(self.step, self.endless(), self.device)

    def _batches(self, epoch: int, first: int) -> Iterator[Fill]:
        """The batches of an epoch from one on, this process's part of each."""
        chosen = order(len(self.data.training), epoch, self.settings.seed)
        share = self.group.share(chosen, self.settings.batch)
        return self.source.batches(share[first * self.settings.batch :], self.settings.batch)

    def endless(self) -> Iterator[Fill]:
        """The batches of the first epoch, again and again."""
        while True:
            yield from self._batches(0, 0)

    def _set_rate(self) -> None:
        rate = self.settings.rate_at(self.done, self.per_epoch)
        if rate != self._rate:
            self.step.set_rate(rate)
            self._rate = rate

    def _epoch(self, progress: Progress, interrupts: Interrupts) -> None:
        """The remaining steps of an epoch, and the evaluation."""
        epoch, first = divmod(self.done, self.per_epoch)
        last = min(self.per_epoch, self.total - epoch * self.per_epoch)
        kept = torch.zeros(last - first, pin_memory=self.device.type == "cuda")
        slots = kept.unbind()
        self.model.train()
        begin, count, due = time.perf_counter(), 0, 0.0
        for fill in self._batches(epoch, first):
            self._set_rate()
            fill(self.step.pixels, self.step.classes)
            self.step()
            slots[count].copy_(self.step.loss, non_blocking=True)
            if not self.history.first:
                synchronize(self.device)
                self.history.first = time.perf_counter() - begin
            self.done, count = self.done + 1, count + 1
            if time.perf_counter() >= due:
                progress(self.done, float(slots[max(count - 2, 0)]))
                due = time.perf_counter() + PAUSE[self.device.type]
            self.history.stopped = self.group.any(interrupts.asked)
            if count == last - first or self.history.stopped:
                break
        synchronize(self.device)
        self.step.check_range()
        self.history.losses += self.group.mean(kept[:count]).tolist()
        self.history.seconds.append(time.perf_counter() - begin)
        if not self.history.stopped and len(self.data.test):
            reached = accuracy(self.model, self.data.test, self.device, self.group)
            self.history.accuracy.append(reached)


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def accuracy(
    model: torch.nn.Module, digits: Digits, device: torch.device, group: TrainingGroup
) -> float:
    """The part of the images that a model recognises; each process of a group tests some."""
    source = Images(digits, device)
    every = np.arange(group.rank, len(digits), group.world, dtype=np.int32)
    model.eval()
    right = 0
    with torch.no_grad():
        for start in range(0, len(every), TESTED):
            some = every[start : start + TESTED]
            pixels = torch.empty(len(some), 1, 28, 28, device=device)
            classes = torch.empty(len(some), dtype=torch.int64, device=device)
            for fill in source.batches(some, len(some)):
                fill(pixels, classes)
            right += int((model(pixels).argmax(1) == classes).sum())
    return float(group.total(torch.tensor(float(right)))) / len(digits)
