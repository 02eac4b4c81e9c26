"""`weft train mnist`: train a network on weft's own kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import options, show
from weft.errors import ArgumentError
from weft.ops import bind

if TYPE_CHECKING:
    from weft.train.loop import History, Training

NETWORKS = ("mnist",)


def run(
    network: Annotated[str, typer.Argument(help="What to train: mnist.")] = "mnist",
    data: Annotated[
        Path | None, typer.Option(help="Folder with MNIST's four files. Default: a small sample.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the images.", min=1)] = 1,
    batch: Annotated[int, typer.Option(help="Images per step.", min=1)] = 64,
    steps: Annotated[int, typer.Option(help="Stop after so many steps. 0: no limit.", min=0)] = 0,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 0.05,
    momentum: Annotated[float, typer.Option(help="Momentum of SGD.")] = 0.9,
    seed: Annotated[int, typer.Option(help="Seed of weights and batches.")] = 0,
    device: Annotated[
        str, typer.Option(help="gpu, sim, or auto: the GPU if there is one.")
    ] = options.AUTO,
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
    """
    if network not in NETWORKS:
        raise ArgumentError(
            "weft train has no such network", got=network, allowed=", ".join(NETWORKS)
        )
    if resume and checkpoint is None:
        raise ArgumentError("--resume needs --checkpoint FILE")
    loop, parts, read = (bind.with_torch(f"weft.train.{n}") for n in ("loop", "contenders", "data"))
    place = _device(device)
    settings = loop.Settings(epochs, batch, rate, momentum, seed, steps, host=not on_gpu)
    found = read.load(data)
    if not json:
        show.line(f"{found.origin}: {len(found.training)} images, {len(found.test)} to test with")
    training = loop.Training(parts.own_parts(settings, place), found, settings, place)
    if resume:
        training.load(checkpoint)
    histories = [_trained(training, json)]
    if checkpoint is not None:
        training.save(checkpoint)
    for name in parts.peers(place) if compare and not histories[0].stopped else ():
        make, graph = parts.PEERS[name]
        peer = replace(settings, graph=graph)
        histories.append(_trained(loop.Training(make(peer, place), found, peer, place), json))
    if html is not None:
        bind.with_torch("weft.train.page").write(html, histories, settings)
    _print(histories, settings, json, checkpoint)
    if histories[0].stopped:
        raise typer.Exit(130)


def _device(word: str) -> Any:
    """The torch device of a device word: the CPU stands for the simulated GPU."""
    torch = bind.with_torch("torch")
    gpu = bind.with_torch("weft.ops.sweep.gpu")
    if word == options.AUTO:
        return torch.device(gpu.present())
    chosen = options.device(word)
    if chosen.number is None:
        return torch.device("cpu")
    gpu.need("weft train --device gpu", "--device sim trains on the simulated GPU")
    return torch.device("cuda", chosen.number)


def _trained(training: Training, json: bool) -> History:
    """Trains with a progress bar."""
    with show.bar(quiet=json) as progress:
        name = f"{training.parts.name}, compiling"
        task = progress.add_task(name, total=training.total, completed=training.done)

        def tell(number: int, loss: float) -> None:
            progress.update(
                task, completed=number, description=f"{training.parts.name}, loss {loss:.4f}"
            )

        return training.run(tell)


def _print(histories: list[Any], settings: Any, json: bool, checkpoint: Path | None) -> None:
    if json:
        show.data({"batch": settings.batch, "trainings": [h.to_dict() for h in histories]})
        return
    columns = ("", "steps", "first loss", "last loss", "accuracy", "first step", "later steps")
    show.table(columns, [_row(h) for h in histories], right=columns[1:])
    first = histories[0]
    if first.stopped:
        where = f"; {checkpoint} goes on with --resume" if checkpoint is not None else ""
        show.line(f"stopped after {len(first.losses)} steps{where}", "yellow")
    for other in histories[1:]:
        pairs = list(zip(first.losses, other.losses, strict=False))[:5]
        apart = max((abs(a - b) for a, b in pairs), default=0.0)
        show.line(
            f"{other.name}: losses of the first {len(pairs)} steps differ by {apart:.1e} at most"
        )


def _row(history: History) -> list[str]:
    losses = history.losses
    return [
        history.name, str(len(losses)), f"{losses[0]:.4f}" if losses else "",
        f"{losses[-1]:.4f}" if losses else "",
        f"{100 * history.accuracy[-1]:.2f} %" if history.accuracy else "",
        show.duration(history.first) if history.first else "",
        show.duration(history.per_step) if history.per_step else "",
    ]  # fmt: skip
