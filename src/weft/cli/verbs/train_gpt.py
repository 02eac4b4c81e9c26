"""`weft train gpt`: train a GPT on a text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli import options, show
from weft.interrupted import INTERRUPTED
from weft.report.files import write
from weft.report.networks import texts
from weft.report.training_page import page
from weft.tasks.networks.train_gpt import GptOptions, train


def run(
    text: Annotated[
        Path | None, typer.Option(help="The file to train on. Default: weft's own documents.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="124m, 350m, 774m, tiny, or layers x width: 6x384.")
    ] = None,
    tokens: Annotated[str, typer.Option(help="bytes, or bpe: learned from the text.")] = "bytes",
    vocabulary: Annotated[int, typer.Option(help="Tokens of bpe.")] = 512,
    length: Annotated[int | None, typer.Option(help="Tokens of a window.", min=1)] = None,
    batch: Annotated[
        int | None, typer.Option(help="Windows per step, of all processes.", min=1)
    ] = None,
    accumulate: Annotated[
        int | None, typer.Option(help="Parts of a batch, one after the other.", min=1)
    ] = None,
    bucket: Annotated[
        float | None, typer.Option(help="MB of gradients that processes send together.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the training.", min=1)] = None,
    rate: Annotated[float | None, typer.Option(help="The largest learning rate.")] = None,
    clip: Annotated[float | None, typer.Option(help="The largest norm of gradients.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights, windows and sample.", min=0)] = 0,
    precision: Annotated[
        str | None, typer.Option(help="bf16: autocast, with weights in fp32; or fp32.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="gpu, sim, or auto: the GPU if there is one.")
    ] = options.AUTO,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also train with PyTorch, from the same weights.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write a checkpoint at the end, and on Ctrl-C.")
    ] = None,
    every: Annotated[
        int, typer.Option(help="Also write the checkpoint after so many steps.", min=0)
    ] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    prompt: Annotated[str, typer.Option(help="The beginning of the sample.")] = "The ",
    sample: Annotated[
        int, typer.Option(help="Tokens that the trained network adds to it. 0: none.", min=0)
    ] = 100,
    temperature: Annotated[float, typer.Option(help="Of the sample: below 1, less random.")] = 0.8,
    html: Annotated[Path | None, typer.Option(help="Write the curves as an HTML page.")] = None,
    json: show.Json = False,
) -> None:
    """Train a GPT of any size on a text, and let it continue a prompt.

    Layers, attention, loss and update are weft's kernels; on a GPU a step is one CUDA graph.
    Without a GPU a small network trains on the simulated one. --compare trains the same network
    with PyTorch. torchrun starts several processes that train together, each on a part of a batch.
    Size, length, batch and steps depend on the device if they are left out.
    """
    given: dict[str, Any] = {
        "size": size, "length": length, "batch": batch, "steps": steps, "rate": rate,
        "clip": clip, "seed": seed, "precision": precision, "accumulate": accumulate,
        "bucket": bucket,
    }  # fmt: skip
    asked = GptOptions(
        {name: value for name, value in given.items() if value is not None},
        text,
        tokens,
        vocabulary,
        None if device == options.AUTO else options.device(device),
        compare,
        checkpoint,
        every,
        resume,
        prompt,
        sample,
        temperature,
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
        tokens_per_step = trained.settings.batch * trained.settings.length
        report = texts.trained(trained.histories, saved, tokens_per_step, trained.sample)
        show.result(json, trained.to_dict, report)
    if trained.stopped:
        raise typer.Exit(INTERRUPTED)
