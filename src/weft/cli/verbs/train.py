"""`weft train mnist`: train a network on weft's own kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, show
from weft.interrupted import INTERRUPTED
from weft.report import training
from weft.report.files import write
from weft.report.training_page import page
from weft.tasks.train import TrainOptions, train


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
    asked = TrainOptions(
        network,
        {
            "epochs": epochs,
            "batch": batch,
            "rate": rate,
            "momentum": momentum,
            "seed": seed,
            "steps": steps,
            "host": not on_gpu,
            "precision": precision,
            "schedule": schedule,
        },
        data,
        None if device == options.AUTO else options.device(device),
        compare,
        checkpoint,
        resume,
        html,
    )
    trained = train(
        asked,
        (lambda text: None) if json else show.line,
        lambda quiet, total, done: show.training(quiet or json, total, done),
    )
    if trained.leads:
        if html is not None:
            write(html, page(trained.title, trained.histories))
        saved = "" if checkpoint is None else str(checkpoint)
        show.result(json, trained.to_dict, training.trainings(trained.histories, saved))
    if trained.stopped:
        raise typer.Exit(INTERRUPTED)
