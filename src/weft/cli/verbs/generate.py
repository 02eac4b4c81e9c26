"""`weft generate FOLDER`: let a decoder continue a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, show
from weft.errors import ArgumentError
from weft.interrupted import INTERRUPTED
from weft.report.generated import generated
from weft.tasks.generate import GenerateOptions, generate


def run(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder with config.json and safetensors files.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="A tiny model of bytes with random weights.")
    ] = False,
    prompt: Annotated[str, typer.Option(help="The text to continue.")] = "",
    ids: Annotated[str, typer.Option(help="Tokens to continue, instead: 1,2,3.")] = "",
    tokens: Annotated[int, typer.Option(help="New tokens at the most.", min=1)] = 50,
    temperature: Annotated[
        float, typer.Option(help="Below 1, less random. 0: the most probable token.")
    ] = 0.8,
    top_k: Annotated[int, typer.Option(help="Draw from so many tokens. 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from tokens of this probability.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the draws.", min=0)] = 0,
    cache: Annotated[
        str, typer.Option(help="Keys and values: static, or paged (16-bit weights).")
    ] = "static",
    batch_invariant: Annotated[
        bool,
        typer.Option("--batch-invariant", help="The tokens that the text has in any batch."),
    ] = False,
    dtype: Annotated[
        str, typer.Option(help="float32, float16 or bfloat16. Default: that of the weights.")
    ] = "",
    device: Annotated[
        str, typer.Option(help="gpu, sim, or auto: the GPU if there is one.")
    ] = options.AUTO,
    json: show.Json = False,
) -> None:
    """Continue a prompt with a decoder: Llama, Mistral, Qwen 2, Qwen 3 or GPT-2.

    Tokens are printed as they come, and Ctrl-C ends the text. On a GPU a step is one CUDA graph.
    Without a GPU the kernels run on the simulated GPU: choose a small model, or --demo.
    """
    if demo == (folder is not None):
        raise ArgumentError(
            "weft generate needs the folder of a model, or --demo alone",
            got=f"--demo and {folder}" if demo else "neither",
            next="weft generate FOLDER --prompt TEXT, or weft generate --demo --prompt TEXT",
        )
    asked = GenerateOptions(
        folder,
        prompt or ("weft" if demo and not ids else ""),
        ids,
        tokens,
        {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed},
        cache,
        dtype,
        None if device == options.AUTO else options.device(device),
        batch_invariant,
    )
    made = generate(asked, (lambda text: None) if json else _say)
    show.result(json, made.to_dict, generated(made))
    if made.stopped:
        raise typer.Exit(INTERRUPTED)


def _say(text: str) -> None:
    """Print text at once; characters that control a terminal are replaced."""
    safe = (c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    sys.stdout.write("".join(safe))
    sys.stdout.flush()
