"""Generates tokens with a decoder, and passes their text on as they come."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.device.selection import Selection
from weft.device.sim.run.draft import drafts
from weft.errors import ArgumentError
from weft.ops.core.bind import with_torch
from weft.tasks.train import place_of
from weft.values.generated import Generated

if TYPE_CHECKING:
    from weft.llm.decoder import Decoder
    from weft.llm.tokens import TextStream, Tokenizer

Say = Callable[[str], None]
"""Called with each piece of text."""


@dataclass(frozen=True)
class GenerateOptions:
    """Tokens to generate.

    folder    of the model; None: the demo
    prompt    a text, or "" if `ids` has the tokens
    ids       tokens as numbers with commas between them
    tokens    how many at the most
    sampling  the keyword arguments of `weft.llm.Sampling`
    dtype     float32, float16 or bfloat16; "": that of the weights
    batch_invariant  as of `weft.llm.Generator`
    device    the one that the user chose, if any
    """

    folder: Path | None
    prompt: str
    ids: str
    tokens: int
    sampling: dict[str, Any]
    cache: str = "static"
    dtype: str = ""
    device: Selection | None = None
    batch_invariant: bool = False


def generate(options: GenerateOptions, say: Say) -> Generated:
    """Load the model and generate; Ctrl-C ends the text."""
    llm = with_torch("weft.llm.generator")
    sampling = with_torch("weft.llm.sampling").Sampling(**options.sampling)
    place = place_of(options.device, "weft generate")
    model = _model(options, place)
    prompt, of = _prompt(options, model)
    capacity = min(len(prompt) + options.tokens, model.config.context)
    generator = llm.Generator(
        model, capacity=capacity, cache=options.cache, batch_invariant=options.batch_invariant
    )
    stream = generator.stream([prompt], options.tokens, sampling)
    show = None if of is None else with_torch("weft.llm.tokens").TextStream(of)
    with _compiled_for(place):
        tokens, seconds, stopped = _run(stream, show, say)
    on_gpu = place.type == "cuda" and len(tokens) > 1 and seconds > 0
    return Generated(
        "demo" if options.folder is None else str(options.folder),
        tuple(prompt),
        tuple(tokens),
        "" if of is None else of.decode(tokens),
        str(place),
        (len(tokens) - 1) / seconds if on_gpu else None,
        stopped,
    )


def _run(stream: Any, show: TextStream | None, say: Say) -> tuple[list[int], float, bool]:
    """(the tokens, seconds from the first to the last, whether the user stopped it)."""
    tokens: list[int] = []
    first = last = 0.0
    stopped = False
    try:
        for (token,) in stream:
            last = time.perf_counter()
            first = first or last
            tokens.append(token)
            number = f"{token}" if len(tokens) == 1 else f" {token}"
            say(number if show is None else show.add(token))
    except KeyboardInterrupt:
        stopped = True
    finally:
        stream.close()
    say("\n" if show is None else show.end() + "\n")
    return tokens, last - first, stopped


def _compiled_for(place: Any) -> AbstractContextManager[None]:
    """Compile quickly on the simulated GPU, where few tokens are generated."""
    return drafts() if place.type == "cpu" else nullcontext()


def _model(options: GenerateOptions, place: Any) -> Decoder:
    torch = with_torch("torch")
    floats = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    if options.dtype and options.dtype not in floats:
        raise ArgumentError(
            "weft generate: there is no such dtype", got=options.dtype, allowed=", ".join(floats)
        )
    if options.folder is None:
        made: Decoder = with_torch("weft.llm.demo").demo(place, floats[options.dtype or "float32"])
        return made
    dtype = floats[options.dtype] if options.dtype else None
    loaded: Decoder = with_torch("weft.llm.loading").load(options.folder, place, dtype)
    return loaded


def _prompt(options: GenerateOptions, model: Decoder) -> tuple[list[int], Tokenizer | None]:
    """The tokens of the prompt, and what makes text of tokens; None: numbers are shown."""
    tokens = with_torch("weft.llm.tokens")
    if options.ids:
        return _numbers(options.ids), None
    if not options.prompt:
        raise ArgumentError("weft generate needs a prompt", next='--prompt "…", or --ids 1,2,3')
    of: Tokenizer = tokens.ByteTokenizer()
    if options.folder is not None:
        of = tokens.tokenizer(options.folder, model.config.vocabulary)
    return of.encode(options.prompt), of


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ArgumentError(
            "weft generate: --ids takes numbers with commas between them", got=text
        ) from None
