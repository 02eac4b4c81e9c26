"""`weft bench networks`: time training steps and inference of whole networks."""

from __future__ import annotations

import functools
import math
from typing import Annotated

import typer

from weft.cli import options, show, sweep_options
from weft.report.networks import steps as report
from weft.tasks.networks import bench as bench_networks


def run(
    only: Annotated[
        str, typer.Option(help='Steps by name: "gpt2-124m train bf16; resnet autocast batch=32".')
    ] = "",
    contenders: Annotated[
        str, typer.Option(help="Only these: eager, compile, reduce-overhead, weft, …")
    ] = "",
    list_: Annotated[bool, typer.Option("--list", help="List the steps; make none.")] = False,
    device: Annotated[
        str, typer.Option(help="gpu: time. sim: compare the losses of tiny networks.")
    ] = options.AUTO,
    max_autotune: Annotated[
        bool, typer.Option(help="Also time torch.compile's mode max-autotune: minutes each.")
    ] = False,
    rounds: Annotated[int, typer.Option(help="Turns of each contender.", min=1)] = 5,
    losses: Annotated[
        int, typer.Option(help="Steps whose losses are compared with PyTorch's.", min=1)
    ] = 10,
    graphs: Annotated[
        bool, typer.Option("--graphs/--no-graphs", help="Time steps as CUDA graphs, too.")
    ] = True,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Record the kernels of each step.")
    ] = False,
    second: Annotated[
        bool, typer.Option("--second", help="Also time the first call of a second process.")
    ] = False,
    limit: sweep_options.Limit = math.inf,
    jobs: Annotated[
        int,
        typer.Option(
            help="Processes that compile at a time. 0: half of the cores. 1: times of first calls"
            " are undisturbed.",
            min=0,
        ),
    ] = 1,
    record: sweep_options.Record = None,
    json: show.Json = False,
) -> None:
    """Time training steps and inference of whole networks, by PyTorch and by weft.

    GPT-2, Llama, BERT, ViT, ResNet, ConvNeXt and a diffusion U-Net, in bf16, under autocast and in
    fp32. Contenders run in processes of their own and take turns: eager PyTorch, torch.compile and
    its modes, weft's layers, weft's compiler. The exit code is 1 if a contender of weft fails, or
    if its losses are not those of PyTorch.
    """
    wanted = bench_networks.NetworkOptions(
        only, contenders, max_autotune, rounds, losses, graphs, kernels, second,
        jobs or bench_networks.default_jobs(), limit, record,
    )  # fmt: skip
    if list_:
        found = bench_networks.listed(wanted)
        show.result(json, lambda: [c.words for c in found], report.listed(found))
        return
    simulated = device != options.AUTO and not options.device(device).real
    task = bench_networks.check if simulated else bench_networks.bench
    times = task(wanted, functools.partial(show.steps, quiet=json))
    show.result(json, times.to_dict, report.summary(times))
    raise typer.Exit(0 if times.right else 1)
