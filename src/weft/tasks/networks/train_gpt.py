"""Trains a GPT on a text, on weft's kernels, and with PyTorch to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.device.selection import Selection
from weft.device.sim.run.draft import drafts
from weft.errors import ArgumentError
from weft.ops.core.bind import with_torch
from weft.tasks.train import (
    Watch,
    check_comparable,
    check_resumable,
    check_writable,
    joined_group,
    place_of,
)
from weft.values.training import History

if TYPE_CHECKING:
    from weft.train.gpt.loop import TextTraining
    from weft.train.gpt.settings import TextSettings
    from weft.train.gpt.step import TextStep
    from weft.train.parallel import TrainingGroup

SIMULATED = {"size": "2x64", "length": 32, "batch": 4, "steps": 20, "precision": "fp32",
             "warm_up": 2, "rate": 3e-3}  # fmt: skip
"""Settings of the simulated GPU that the user does not give: a training of seconds."""
MOST_DRAFTED = 2000
"""Windows of a training up to which slow code is the better deal: it is compiled sooner."""


@dataclass(frozen=True)
class GptOptions:
    """A training.

    settings    those of `weft.train.gpt.settings.TextSettings` that the user gave
    text        the file to train on; weft's own documents by default
    tokens      bytes or bpe
    vocabulary  tokens of bpe
    device      the one that the user chose, if any
    compare     also train with PyTorch, from the same weights
    checkpoint  the file to write at the end, after `every` steps and on Ctrl-C
    resume      go on from the checkpoint
    prompt      the beginning of a text that the trained network continues by `sample` tokens
    page        the file that the curves will be written to
    """

    settings: dict[str, Any] = field(default_factory=dict)
    text: Path | None = None
    tokens: str = "bytes"
    vocabulary: int = 512
    device: Selection | None = None
    compare: bool = False
    checkpoint: Path | None = None
    every: int = 0
    resume: bool = False
    prompt: str = "The "
    sample: int = 0
    temperature: float = 0.8
    page: Path | None = None


@dataclass(frozen=True)
class TrainedGpt:
    """A training and those by PyTorch, and a text that the network continued.

    leads  True in the process of torchrun that prints
    """

    histories: tuple[History, ...]
    settings: TextSettings
    vocabulary: int
    parameters: int
    device: str
    sample: str = ""
    leads: bool = True

    @property
    def title(self) -> str:
        """The network, and the settings that its curves depend on."""
        s = self.settings
        return f"GPT {s.size}, {s.batch} x {s.length} tokens, {s.precision}, seed {s.seed}"

    @property
    def stopped(self) -> bool:
        """True if the user stopped it."""
        return self.histories[0].stopped

    def to_dict(self) -> dict[str, Any]:
        """The trainings as a dict, for JSON."""
        s = self.settings
        head = {"size": s.size, "batch": s.batch, "length": s.length, "precision": s.precision}
        head |= {"vocabulary": self.vocabulary, "parameters": self.parameters}
        trainings = [h.to_dict() for h in self.histories]
        return {**head, "device": self.device, "trainings": trainings, "sample": self.sample}


def train(options: GptOptions, say: Callable[[str], None], watch: Watch) -> TrainedGpt:
    """Train on weft's kernels; `say` is called with what is trained on."""
    check_resumable(options.resume, options.checkpoint)
    if options.temperature <= 0:
        raise ArgumentError("the temperature must be positive", got=str(options.temperature))
    for path in (options.checkpoint, options.page):
        check_writable(path)
    place = place_of(options.device)
    with joined_group(place) as group:
        check_comparable(options.compare, group)
        return _trained(options, place, group, say, watch)


def _trained(
    options: GptOptions, place: Any, group: TrainingGroup, say: Callable[[str], None], watch: Watch
) -> TrainedGpt:
    settings = _module("settings").TextSettings(
        **{**(SIMULATED if place.type == "cpu" else {}), **options.settings}
    )
    text = _module("text").load(options.text)
    tokens = _module("tokens").learned(options.tokens, options.vocabulary, text.content)
    settings.config(tokens.count)  # raises for an unknown size
    windows = _module("text").Windows(text, tokens, settings.length, place)
    group.part(settings.batch, settings.accumulate)  # raises for a batch that does not divide
    if group.leads:
        say(f"{text.origin}: {len(windows):,} tokens of {tokens.count} kinds")
    short = place.type == "cpu" and settings.steps * settings.batch <= MOST_DRAFTED
    with drafts() if short else nullcontext():
        training = _on_weft(options, settings, place, group, (text, tokens, windows), watch)
        histories, sample = [training.history], ""
        if options.sample and group.leads and not training.history.stopped:
            sample = _module("sample").continued(
                training.model, tokens, settings, place, options.prompt, options.sample,
                options.temperature,
            )  # fmt: skip
        if options.compare and not training.history.stopped:
            training.time_parts()
            histories += _peers(settings, tokens.count, windows, place, watch)
    parameters = sum(p.numel() for p in training.model.parameters())
    return TrainedGpt(
        tuple(histories), settings, tokens.count, parameters, str(place), sample, group.leads
    )


def _on_weft(
    options: GptOptions,
    settings: TextSettings,
    place: Any,
    group: TrainingGroup,
    data: tuple[Any, Any, Any],
    watch: Watch,
) -> TextTraining:
    """The training on weft's kernels, done and saved."""
    text, tokens, windows = data
    make, checkpoints = _module("contenders").weft_step, _module("checkpoint")
    training: TextTraining = _module("loop").TextTraining(
        make(settings, tokens.count, place, group), windows, settings, place, group
    )
    path = options.checkpoint
    if options.resume:
        checkpoints.load(training, text, tokens, path)

    def save() -> None:
        if path is not None and group.leads:
            checkpoints.save(training, text, tokens, path)

    _run(training, watch, make(settings, tokens.count, place, group.alone), save, options.every)
    save()
    return training


def _peers(
    settings: TextSettings, vocabulary: int, windows: Any, place: Any, watch: Watch
) -> Iterator[History]:
    """The same training by PyTorch, by every contender that runs on the device."""
    for make in _module("contenders").peers(place).values():
        step = make(settings, vocabulary, place)
        training = _module("loop").TextTraining(step, windows, settings, place)
        history = _run(training, watch)
        yield history
        if history.stopped:
            return
        training.time_parts()


def _run(
    training: TextTraining,
    watch: Watch,
    other: TextStep | None = None,
    save: Callable[[], None] = lambda: None,
    every: int = 0,
) -> History:
    """Train, after all kernels of `other` are compiled."""
    name = training.history.name
    with watch(not training.group.leads, training.settings.steps, training.done) as notify:
        notify(training.done, f"{name}, compiling")
        if other is not None:
            training.compile(other)
        return training.run(
            lambda number, loss: notify(number, f"{name}, loss {loss:.4f}"), save, every
        )


def _module(name: str) -> Any:
    return with_torch(f"weft.train.gpt.{name}")
