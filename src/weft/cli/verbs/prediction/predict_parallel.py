"""`weft predict-parallel`: predict the times of a model on several GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.measure.parallel.predict import predict_parallel
from weft.report.parallel.text import view


def run(
    model: Annotated[
        str, typer.Option(help="A network: gpt2-124m, gpt2-350m, llama-1b, bert-base, …")
    ] = "gpt2",
    layout: Annotated[
        str,
        typer.Option(
            help="Layouts with commas between: ring, striped, zigzag, ulysses, tensor,"
            " tensor-sequence, data, fsdp, gpipe, 1f1b; or all."
        ),
    ] = "all",
    gpus: Annotated[
        str, typer.Option(help="Numbers of GPUs: 8, 2,4,6 or 2..1024, the powers of two.")
    ] = "2..1024",
    link: Annotated[
        str, typer.Option(help="nvlink, pcie5, network, or figures such as 450GB/s,2us.")
    ] = "nvlink",
    between: Annotated[
        str, typer.Option(help="The link between nodes. Default: all GPUs share --link.")
    ] = "",
    node: Annotated[int, typer.Option(help="GPUs of a node, with --between.")] = 8,
    time: Annotated[
        str | None,
        typer.Option(help="A training step on one GPU: 12.3ms, or a file of predict --json."),
    ] = None,
    attention_time: Annotated[
        str | None, typer.Option(help="The same for one forward call of attention.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Texts of a batch. 0: as recorded.")] = 0,
    length: Annotated[int, typer.Option(help="Tokens of a text. 0: as recorded.")] = 0,
    dtype: Annotated[str, typer.Option(help="The training step's: bf16 or autocast.")] = "bf16",
    causal: Annotated[
        bool | None, typer.Option("--causal/--full", help="Attention. Default: as the model is.")
    ] = None,
    micro_batches: Annotated[int, typer.Option(help="Micro-batches of a pipeline.")] = 8,
    bucket: Annotated[str, typer.Option(help="Gradients that are added at a time.")] = "25MB",
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Also simulate the schedules, on up to 32 GPUs.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with charts.")] = None,
    json: show.Json = False,
) -> None:
    """Predict the time of a model on several GPUs, from its time on one and from the links.

    Times of one GPU are recorded ones of an H200, or yours. Formulas give compute, communication,
    overlap and idle time of each layout. docs/predict_parallel.md has the model and its errors.
    """
    found = predict_parallel(
        model, layouts=layout, gpus=gpus, link=link, between=between, node=node, time=time,
        attention_time=attention_time, batch=batch, length=length, dtype=dtype, causal=causal,
        micro_batches=micro_batches, bucket=bucket, simulate=simulate,
    )  # fmt: skip
    shown = view(found.rows, found.sources, found.links, found.left_out)
    show.result(json, found.to_dict, shown)
    if html is not None:
        show.page(html, found.html(), quiet=json)
