"""Trains a network on weft's own kernels, and with PyTorch to compare."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.device.selection import Selection
from weft.device.sim.run.draft import drafts
from weft.distributed.parallel.lost import RankLost
from weft.errors import ArgumentError, Error
from weft.ops.core.bind import with_torch
from weft.tasks.ended import ProgramEnded
from weft.values.training import History

if TYPE_CHECKING:
    from weft.train.data import Mnist
    from weft.train.loop import Training
    from weft.train.parallel import TrainingGroup
    from weft.train.settings import Settings
    from weft.train.step import TrainingStep

NETWORKS = ("mnist", "gpt")
MOST_DRAFTED = 1500
"""Images of a training for which slow code that is compiled in half the time is the better deal."""

Notify = Callable[[int, str], None]
"""Called with the number of steps so far and a description."""
Watch = Callable[[bool, int, int], AbstractContextManager[Notify]]
"""Entered for a training: whether to be quiet, its steps in all, and those that are done."""


@dataclass(frozen=True)
class TrainOptions:
    """A training; `settings` are the keyword arguments of `weft.train.settings.Settings`.

    network     what to train
    data        the folder with the images; a small sample by default
    device      the one that the user chose, if any
    compare     also train with PyTorch, from the same weights
    checkpoint  the file to write at the end and on Ctrl-C
    resume      go on from the checkpoint
    page        the file that the curves will be written to
    """

    network: str
    settings: dict[str, Any]
    data: Path | None = None
    device: Selection | None = None
    compare: bool = False
    checkpoint: Path | None = None
    resume: bool = False
    page: Path | None = None


@dataclass(frozen=True)
class Trained:
    """A training, and those by PyTorch; `leads` in the process of torchrun that prints."""

    histories: tuple[History, ...]
    settings: Settings
    device: str
    leads: bool

    @property
    def title(self) -> str:
        """The network, and the settings that its curves depend on."""
        s = self.settings
        return f"MNIST, batch {s.batch}, {s.precision}, seed {s.seed}"

    @property
    def stopped(self) -> bool:
        """True if the user stopped it."""
        return self.histories[0].stopped

    def to_dict(self) -> dict[str, Any]:
        """The trainings as a dict, for JSON."""
        s = self.settings
        head = {"batch": s.batch, "precision": s.precision, "device": self.device}
        return {**head, "trainings": [h.to_dict() for h in self.histories]}


def train(options: TrainOptions, say: Callable[[str], None], watch: Watch) -> Trained:
    """Train on weft's kernels; `say` is called with what is trained on, by one process."""
    if options.network not in NETWORKS:
        near = difflib.get_close_matches(options.network, NETWORKS, 1)
        raise ArgumentError(
            "weft train has no such network",
            got=options.network,
            allowed=", ".join(NETWORKS),
            next=f"did you mean '{near[0]}'?" if near else "",
        )
    if options.network == "gpt":  # a command of its own, which options before its name hide
        raise ArgumentError("the options of a GPT follow its name", next="weft train gpt --help")
    check_resumable(options.resume, options.checkpoint)
    settings = with_torch("weft.train.settings").Settings(**options.settings)
    for path in (options.checkpoint, options.page):
        check_writable(path)
    place = place_of(options.device)
    with joined_group(place) as group:
        check_comparable(options.compare, group)
        found = with_torch("weft.train.data").load(options.data)
        if group.leads:
            say(f"{found.origin}: {len(found.training)} images, {len(found.test)} to test with")
        with _compiled_for(settings, place, found):
            training = _on_weft(options, settings, place, found, group, watch)
        histories = [training.history]
        if options.compare and not training.history.stopped:
            training.time_parts()
            histories += _peers(settings, place, found, watch)
    return Trained(tuple(histories), settings, str(place), leads=group.leads)


def _compiled_for(settings: Settings, place: Any, found: Mnist) -> AbstractContextManager[None]:
    """Compile quickly for a short training on the simulated GPU."""
    images = settings.epochs * len(found.training)
    if settings.steps:
        images = min(images, settings.steps * settings.batch)
    return drafts() if place.type == "cpu" and images <= MOST_DRAFTED else nullcontext()


def check_resumable(resume: bool, checkpoint: Path | None) -> None:
    """Raise if there is no checkpoint to go on from."""
    if resume and checkpoint is None:
        raise ArgumentError("--resume needs --checkpoint FILE")


def check_comparable(compare: bool, group: TrainingGroup) -> None:
    """Raise if several processes are to compare with PyTorch."""
    if compare and group.world > 1:
        raise ArgumentError(
            "--compare trains in one process",
            got=f"{group.world} processes of torchrun",
            next="leave --compare or torchrun out",
        )


def check_writable(path: Path | None) -> None:
    """Raise before the training, not after it."""
    if path is None:
        return
    if path.is_dir():
        raise ArgumentError("a file is needed, not a folder", got=str(path))
    path.parent.mkdir(parents=True, exist_ok=True)


def place_of(chosen: Selection | None, verb: str = "weft train") -> Any:
    """The torch device of a device: the CPU stands for the simulated GPU."""
    torch = with_torch("torch")
    gpu = with_torch("weft.ops.sweep.gpu")
    local = int(os.environ.get("LOCAL_RANK", "0"))  # each process of torchrun has its own GPU
    if chosen is None:
        return torch.device("cuda", local) if gpu.present() == "cuda" else torch.device("cpu")
    if chosen.number is None:
        return torch.device("cpu")
    gpu.need(f"{verb} --device gpu", "--device sim runs on the simulated GPU")
    return torch.device("cuda", chosen.number + local)


@contextmanager
def joined_group(place: Any) -> Iterator[TrainingGroup]:
    """The processes of torchrun. The first one reports errors that all of them find."""
    with with_torch("weft.train.parallel").joined(place) as group:
        try:
            yield group
        except Error as error:
            # Each process that loses others says which: the first one may be the lost one.
            if group.leads or isinstance(error, RankLost):
                raise
            raise ProgramEnded(1) from None


def _on_weft(
    options: TrainOptions,
    settings: Settings,
    place: Any,
    found: Mnist,
    group: TrainingGroup,
    watch: Watch,
) -> Training:
    """The training on weft's kernels, done and saved."""
    loop, contenders, checkpoints = (
        with_torch(f"weft.train.{name}") for name in ("loop", "contenders", "checkpoint")
    )
    step, other = _steps(contenders, settings, place, group)
    training: Training = loop.Training(step, found, settings, place, group)
    if options.resume:
        checkpoints.load(training, options.checkpoint)
    _run(training, watch, not group.leads, other)
    if options.checkpoint is not None and group.leads:
        checkpoints.save(training, options.checkpoint)
    return training


def _peers(settings: Settings, place: Any, found: Mnist, watch: Watch) -> Iterator[History]:
    """The same training by PyTorch, by every contender that runs on the device."""
    loop, contenders = (with_torch(f"weft.train.{name}") for name in ("loop", "contenders"))
    with with_torch("weft.train.settings").of_torch(settings.precision):
        for make in contenders.peers(place).values():
            training = loop.Training(make(settings, place), found, settings, place)
            history = _run(training, watch)
            yield history
            if history.stopped:
                return
            training.time_parts()


def _steps(
    contenders: Any, settings: Settings, place: Any, group: TrainingGroup
) -> tuple[TrainingStep, TrainingStep]:
    """The step on weft's kernels, and another one from which its kernels are compiled."""
    if group.world == 1:
        return contenders.weft_step(settings, place), contenders.weft_step(settings, place)
    make = contenders.parallel_step
    return make(settings, place, group), make(settings, place, group.alone)


def _run(
    training: Training, watch: Watch, quiet: bool = False, other: TrainingStep | None = None
) -> History:
    """Train, after all kernels of `other` are compiled."""
    name = training.history.name
    with watch(quiet, training.total, training.done) as notify:
        notify(training.done, f"{name}, compiling")
        if other is not None:
            training.compile(other)
        return training.run(lambda number, loss: notify(number, f"{name}, loss {loss:.4f}"))
