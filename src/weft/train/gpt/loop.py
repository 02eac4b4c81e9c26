"""The training of a GPT: steps that can be stopped and go on, and the loss on kept text."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from itertools import count

import torch

from weft.device.sim.run.ahead import compile_ahead
from weft.train.batches import Fill
from weft.train.gpt.settings import TextSettings
from weft.train.gpt.step import TextStep, autocast
from weft.train.gpt.text import Windows
from weft.train.interrupts import Interrupts
from weft.train.loop import PAUSE, synchronize
from weft.train.parallel import TrainingGroup
from weft.train.times import part_times
from weft.values.training import History

TESTED = {"cuda": 8, "cpu": 1}
"""Batches of an evaluation, by the type of the device."""

Progress = Callable[[int, float], None]
"""Called after steps: the number of the last one, and the last loss that is known."""
Save = Callable[[], None]


def _fill(windows: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    """Write a batch: windows [batch, length + 1] without their last and without their first."""
    inputs.copy_(windows[:, :-1])
    targets.copy_(windows[:, 1:])


class TextTraining:
    """A training that can be stopped and go on.

    done  steps so far
    """

    def __init__(
        self, step: TextStep, windows: Windows, settings: TextSettings, device: torch.device,
        group: TrainingGroup = TrainingGroup(),  # noqa: B008  a frozen value
    ) -> None:  # fmt: skip
        self.step, self.windows, self.settings, self.device = step, windows, settings, device
        self.group = group
        self.history = History(step.parts.name)
        self.done = 0

    @property
    def model(self) -> torch.nn.Module:
        return self.step.parts.model

    def compile(self, step: TextStep) -> None:
        """Compile what the simulated GPU runs in a step, on all cores; `step` is spoiled.

        Of several processes the first one compiles; the others find the code in the cache.
        """
        if self.device.type == "cpu" and self.done < self.settings.steps and self.group.leads:
            with compile_ahead():
                self._load(step, 0)
                step.eager()
        self.group.wait()

    def run(
        self,
        progress: Progress = lambda number, loss: None,
        save: Save = lambda: None,
        every: int = 0,
    ) -> History:
        """Train to the end or until the user interrupts; call `save` after `every` steps."""
        settings, history = self.settings, self.history
        kept: list[torch.Tensor] = []
        self.model.train()
        begin, due = time.perf_counter(), 0.0
        with Interrupts() as interrupts:
            while self.done < settings.steps and not history.stopped:
                self.step.set_rate(settings.rate_at(self.done))
                self._load(self.step, self.done)
                self.step()
                kept.append(self.step.loss.clone())
                self.done += 1
                if not history.first:
                    synchronize(self.device)
                    history.first = time.perf_counter() - begin
                if time.perf_counter() >= due:
                    progress(self.done, float(kept[-1]))
                    due = time.perf_counter() + PAUSE[self.device.type]
                history.stopped = self.group.any(interrupts.asked)
                if every and self.done % every == 0 and self.done < settings.steps:
                    begin = self._note(kept, begin)
                    save()
        self._note(kept, begin)
        if not history.stopped:
            history.validation.append(self.evaluate())
        return history

    def _load(self, step: TextStep, number: int) -> None:
        _fill(self._drawn(number), step.pixels, step.classes)

    def _drawn(self, number: int) -> torch.Tensor:
        """The windows of a step, this process's part of them."""
        return self._part(self.windows.drawn(self.settings.seed, number, self.settings.batch))

    def _part(self, windows: torch.Tensor) -> torch.Tensor:
        parts: tuple[torch.Tensor, ...] = windows.chunk(self.group.world)
        return parts[self.group.rank]

    def time_parts(self) -> None:
        """Time the parts of a step. The timed steps change the weights: call this last."""
        self.model.train()
        self.history.times = part_times(self.step, self._fills(), self.device)

    def _fills(self) -> Iterator[Fill]:
        """The batches of the first steps, without an end."""
        for step in count():
            yield functools.partial(_fill, self._drawn(step))

    def _note(self, kept: list[torch.Tensor], begin: float) -> float:
        """Move the losses and the time so far to the history; return the time now."""
        synchronize(self.device)
        if kept:
            self.history.losses += self.group.mean(torch.stack(kept).float().cpu()).tolist()
        kept.clear()
        now = time.perf_counter()
        self.history.seconds.append(now - begin)
        return now

    def evaluate(self) -> float:
        """The mean loss on text that is not trained on."""
        settings, batches = self.settings, TESTED[self.device.type]
        every = self.windows.spread(batches * settings.batch)
        losses = []
        self.model.eval()
        with torch.no_grad(), autocast(settings.precision, self.device):
            for windows in map(self._part, every.split(settings.batch)):
                logits = self.model(windows[:, :-1].contiguous())
                loss = self.step.parts.loss(logits, windows[:, 1:].contiguous())
                losses.append(float(loss))
        self.model.train()
        return float(self.group.mean(torch.tensor(sum(losses) / len(losses))))
