"""`weft train mnist`: train a network on weft's own kernels."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import options, show
from weft.device.sim.run.draft import drafts
from weft.errors import ArgumentError, Error
from weft.ops.core import bind

if TYPE_CHECKING:
    from weft.train.data import Mnist
    from weft.train.loop import History, Training
    from weft.train.parallel import Group
    from weft.train.settings import Settings
    from weft.train.step import Step

NETWORKS = ("mnist",)
FEW = 1500
"""Images of a training for which slow code that is compiled in half the time is the better deal."""


def run(
    network: Annotated[str, typer.Argument(help="What to train: mnist.")] = "mnist",
    data: Annotated[
        Path | None, typer.Option(help="Folder with MNIST's four files. Default: a small sample.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the images.", min=1)] = 1,
    batch: Annotated[int, typer.Option(help="Images per step and process.", min=1)] = 64,
    steps: Annotated[int, typer.Option(help="Stop after so many steps. 0: no limit.", min=0)] = 0,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 0.05,
    schedule: Annotated[
        str, typer.Option(help="linear: the rate falls to 0 over all epochs; or constant.")
    ] = "linear",
    momentum: Annotated[float, typer.Option(help="Momentum of SGD.")] = 0.9,
    seed: Annotated[int, typer.Option(help="Seed of weights and batches.", min=0)] = 0,
    device: Annotated[
        str, typer.Option(help="gpu, sim, or auto: the GPU if there is one.")
    ] = options.AUTO,
    precision: Annotated[
        str, typer.Option(help="Of products: fp32, or tf32 on tensor cores.")
    ] = "fp32",
    on_gpu: Annotated[
        bool, typer.Option("--on-gpu/--on-host", help="Where the images are.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also train with PyTorch, from the same weights.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write a checkpoint at the end, and on Ctrl-C.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write the curves as an HTML page.")] = None,
    json: show.Json = False,
) -> None:
    """Train a network on weft's own kernels: forward, backward and update.

    The network has two blocks of convolution, batch norm, ReLU and max pooling, and two linear
    layers. On a GPU a step is one CUDA graph. Without a GPU the kernels run on the simulated GPU,
    on a sample of MNIST that is part of weft. --compare trains the same network with PyTorch.
    torchrun starts several processes that train together.
    """
    if network not in NETWORKS:
        near = difflib.get_close_matches(network, NETWORKS, 1)
        raise ArgumentError(
            "weft train has no such network", got=network, allowed=", ".join(NETWORKS),
            next=f"did you mean '{near[0]}'?" if near else "",
        )  # fmt: skip
    if resume and checkpoint is None:
        raise ArgumentError("--resume needs --checkpoint FILE")
    settings = bind.with_torch("weft.train.settings").Settings(
        epochs,
        batch,
        rate,
        momentum,
        seed,
        steps,
        host=not on_gpu,
        precision=precision,
        schedule=schedule,
    )
    for path in (checkpoint, html):
        _check_writable(path)
    place = _device(device)
    with _group(place) as group:
        if compare and group.world > 1:
            raise ArgumentError(
                "--compare trains in one process", got=f"{group.world} processes of torchrun",
                next="leave --compare or torchrun out",
            )  # fmt: skip
        quiet = json or not group.leads
        found = bind.with_torch("weft.train.data").load(data)
        if not quiet:
            show.line(
                f"{found.origin}: {len(found.training)} images, {len(found.test)} to test with"
            )
        with _compiled_for(settings, place, found):
            training = _weft(settings, place, found, group, checkpoint, resume, quiet)
        histories = [training.history]
        if compare and not training.history.stopped:
            training.time_parts()
            histories += _peers(settings, place, found, quiet)
        if group.leads:
            if html is not None:
                bind.with_torch("weft.train.page").write(html, histories, settings)
            _print(histories, settings, place, json, checkpoint)
    if histories[0].stopped:
        raise typer.Exit(130)


def _compiled_for(settings: Settings, place: Any, found: Mnist) -> AbstractContextManager[None]:
    """On the simulated GPU a short training takes less time if its kernels are compiled quickly."""
    images = settings.epochs * len(found.training)
    if settings.steps:
        images = min(images, settings.steps * settings.batch)
    return drafts() if place.type == "cpu" and images <= FEW else nullcontext()


def _check_writable(path: Path | None) -> None:
    """Fails before the training, not after it."""
    if path is None:
        return
    if path.is_dir():
        raise ArgumentError("a file is needed, not a folder", got=str(path))
    path.parent.mkdir(parents=True, exist_ok=True)


def _device(word: str) -> Any:
    """The torch device of a device word: the CPU stands for the simulated GPU."""
    torch = bind.with_torch("torch")
    gpu = bind.with_torch("weft.ops.sweep.gpu")
    local = int(os.environ.get("LOCAL_RANK", "0"))  # each process of torchrun has its own GPU
    if word == options.AUTO:
        return torch.device("cuda", local) if gpu.present() == "cuda" else torch.device("cpu")
    chosen = options.device(word)
    if chosen.number is None:
        return torch.device("cpu")
    gpu.need("weft train --device gpu", "--device sim trains on the simulated GPU")
    return torch.device("cuda", chosen.number + local)


@contextmanager
def _group(place: Any) -> Iterator[Group]:
    """The processes of torchrun. The first one prints errors that all of them find."""
    with bind.with_torch("weft.train.parallel").joined(place) as group:
        try:
            yield group
        except Error:
            if group.leads:
                raise
            raise typer.Exit(1) from None


def _weft(
    settings: Settings, place: Any, found: Mnist, group: Group, checkpoint: Path | None,
    resume: bool, quiet: bool,
) -> Training:  # fmt: skip
    """The training on weft's kernels, done and saved."""
    loop, contenders, kept = (
        bind.with_torch(f"weft.train.{name}") for name in ("loop", "contenders", "checkpoint")
    )
    step, other = _steps(contenders, settings, place, group)
    training: Training = loop.Training(step, found, settings, place, group)
    if resume:
        kept.load(training, checkpoint)
    _trained(training, quiet, other)
    if checkpoint is not None and group.leads:
        kept.save(training, checkpoint)
    return training


def _peers(settings: Settings, place: Any, found: Mnist, quiet: bool) -> Iterator[History]:
    """The same training by PyTorch, in every way that runs on the device."""
    loop, contenders = (bind.with_torch(f"weft.train.{name}") for name in ("loop", "contenders"))
    with bind.with_torch("weft.train.settings").of_torch(settings.precision):
        for make in contenders.peers(place).values():
            training = loop.Training(make(settings, place), found, settings, place)
            history = _trained(training, quiet)
            yield history
            if history.stopped:
                return
            training.time_parts()


def _steps(contenders: Any, settings: Settings, place: Any, group: Group) -> tuple[Step, Step]:
    """The step on weft's kernels, and another one from which its kernels are compiled."""
    if group.world == 1:
        return contenders.weft_step(settings, place), contenders.weft_step(settings, place)
    make = contenders.parallel_step
    return make(settings, place, group), make(settings, place, group.alone)


def _trained(training: Training, quiet: bool, other: Step | None = None) -> History:
    """Trains with a progress bar, after all kernels of `other` are compiled."""
    with show.bar(quiet=quiet) as progress:
        name = f"{training.history.name}, compiling"
        task = progress.add_task(name, total=training.total, completed=training.done)

        def tell(number: int, loss: float) -> None:
            progress.update(
                task, completed=number, description=f"{training.history.name}, loss {loss:.4f}"
            )

        if other is not None:
            with show.ends_at_once():
                training.compile(other)
        return training.run(tell)


# ---- output ------------------------------------------------------------------------------------
def _print(
    histories: Sequence[History], settings: Settings, place: Any, json: bool, kept: Path | None
) -> None:
    if json:
        head = {"batch": settings.batch, "precision": settings.precision, "device": str(place)}
        show.data({**head, "trainings": [h.to_dict() for h in histories]})
        return
    columns = ("", "steps", "first loss", "last loss", "accuracy", "first step", "later steps")
    show.table(columns, [_row(h) for h in histories], right=columns[1:])
    first = histories[0]
    if first.stopped:
        where = f"; {kept} goes on with --resume" if kept is not None else ""
        show.line(f"stopped after {len(first.losses)} steps{where}", "yellow")
    for other in histories[1:]:
        pairs = list(zip(first.losses, other.losses, strict=False))[:5]
        apart = max((abs(a - b) for a, b in pairs), default=0.0)
        show.line(
            f"{other.name}: losses of the first {len(pairs)} steps differ by {apart:.1e} at most"
        )
    _print_times(histories)


def _print_times(histories: Sequence[History]) -> None:
    timed = [h for h in histories if h.times is not None]
    parts = list(dict.fromkeys(part for h in timed if h.times for part in h.times.parts))
    if not timed or timed[0].times is None:
        return
    rows = [
        [h.name, *(show.duration(h.times.parts[p]) if p in h.times.parts else "" for p in parts),
         show.duration(h.times.total)]
        for h in timed if h.times is not None
    ]  # fmt: skip
    show.line(f"\ntime per step: {timed[0].times.how}", "bold")
    show.table(("", *parts, "sum"), rows, right=(*parts, "sum"))


def _row(history: History) -> list[str]:
    losses = history.losses
    return [
        history.name, str(len(losses)), f"{losses[0]:.4f}" if losses else "",
        f"{losses[-1]:.4f}" if losses else "",
        f"{100 * history.accuracy[-1]:.2f} %" if history.accuracy else "",
        show.duration(history.first) if history.first else "",
        show.duration(history.per_step) if history.per_step else "",
    ]  # fmt: skip
