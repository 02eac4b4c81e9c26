"""Times one token of a decoder with the sizes of Llama 3 8B, beside plain PyTorch.

    python benchmarks/decoding.py          # needs a GPU with 24 GB; rows go to $OUT/decoding.jsonl
    python benchmarks/decoding.py --own    # without PyTorch
    python benchmarks/decoding.py --tiny   # a small model on the simulated GPU: checks both models

Weights are random bf16 numbers, made on the device; both models share them. Each step reads 1,500
tokens of context, for 1, 2 and 16 texts. weft's step is a CUDA graph, with the draw of the token;
PyTorch's ends with the logits, eager and by torch.compile(mode="reduce-overhead"), on a static
cache. weft is also timed with weights of 8 and 4 bits, by single kernels where a step is one launch
otherwise, or would be but for a limit of texts, and with results that do not depend on the batch.
Times are medians of rounds of steps that follow each other, by CUDA events.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import weft
from weft.llm import Decoder, DecoderConfig, Generator
from weft.llm.decoder import angles
from weft.llm.demo import spread
from weft.llm.fused import plan

LLAMA_8B = DecoderConfig(
    family="llama", vocabulary=128256, width=4096, depth=32, heads=32, kv_heads=8, head_size=128,
    hidden=14336, context=8192, eps=1e-5, theta=500_000.0,
)  # fmt: skip
TINY = DecoderConfig(
    family="llama", vocabulary=64, width=32, depth=2, heads=4, kv_heads=2, head_size=16,
    hidden=48, context=64, eps=1e-5, theta=500.0,
)  # fmt: skip
CONTEXT, CAPACITY, BATCHES = 1500, 1536, (1, 2, 16)
ROUNDS, STEPS = 9, 10
"""Times of each contender, and the steps of each."""


FORMATS: tuple[tuple[str, dict[str, Any]], ...] = (("int8", {}), ("int4", {"group": 128}))
"""Formats of weights that are timed as well."""


class PlainStep:
    """A step of a Llama in plain PyTorch, with the weights and a copy of the cache of weft's."""

    def __init__(self, generator: Generator, position: int) -> None:
        model = self.model = generator.model
        c = self.c = model.config
        self.keys, self.values = (
            [x.transpose(1, 2).clone() for x in side]
            for side in (generator.cache.keys, generator.cache.values)
        )
        for x in (*self.keys, *self.values):  # else CUDA graphs are left out: steps write to them
            torch._dynamo.mark_static_address(x)
        cos, sin = angles(c, generator.capacity, model.device)
        self.cos, self.sin = (torch.cat((x, x), -1).to(model.dtype) for x in (cos, sin))
        self.position = torch.tensor([position], device=model.device)
        numbers = torch.arange(generator.capacity, device=model.device)
        self.seen = (numbers <= position)[None, None, None]

    def turned(self, x: Any) -> Any:
        first, second = x.chunk(2, -1)
        cos, sin = self.cos[self.position], self.sin[self.position]
        return x * cos + torch.cat((-second, first), -1) * sin

    def norm(self, x: Any, layer: Any) -> Any:
        return F.rms_norm(x, (self.c.width,), layer.weight, self.c.eps)

    def __call__(self, tokens: Any) -> Any:
        c = self.c
        x = F.embedding(tokens, self.model.embedding.weight)
        counts = [c.heads, c.kv_heads, c.kv_heads]
        for i, block in enumerate(self.model.blocks):
            qkv = F.linear(self.norm(x, block.norm1), block.qkv.weight)
            q, k, v = qkv.view(len(tokens), -1, 1, c.head_size).split(counts, 1)
            q, k = self.turned(q), self.turned(k)
            self.keys[i].index_copy_(2, self.position, k)
            self.values[i].index_copy_(2, self.position, v)
            y = F.scaled_dot_product_attention(
                q, self.keys[i], self.values[i], self.seen, enable_gqa=True
            )
            x = x + F.linear(y.flatten(1), block.out.weight)
            gate, up = F.linear(self.norm(x, block.norm2), block.up.weight).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, block.down.weight)
        return F.linear(self.norm(x, self.model.norm), self.model.head.weight)


def filled(
    model: Decoder, rows: int, capacity: int, context: int, batch_invariant: bool = False
) -> Generator:
    """A generator whose texts have so many tokens; each step is at the same position."""
    generator = Generator(model, rows=rows, capacity=capacity, batch_invariant=batch_invariant)
    for number, side in enumerate(generator.cache.keys + generator.cache.values):
        wave = torch.arange(side.numel(), device=model.device, dtype=torch.float32)
        side.copy_((wave * 0.37 + number).sin().view(side.shape))
    generator._positions.fill_(context)
    generator.cache.lengths.fill_(context + 1)
    tokens = torch.arange(rows, device=model.device) * 7 % model.config.vocabulary
    generator._tokens.copy_(tokens)
    generator._follow_model()  # as a stream does before its first step
    return generator


@contextlib.contextmanager
def most_texts(count: int) -> Iterator[None]:
    """Let a step be one launch for up to so many texts; 0: by single kernels."""
    before = dict(plan.MOST_TEXTS)
    plan.MOST_TEXTS.update(dict.fromkeys(before, count))
    try:
        yield
    finally:
        plan.MOST_TEXTS.update(before)


def of_weft(model: Decoder, rows: int, capacity: int, context: int) -> dict[str, float]:
    """Milliseconds of weft's step, and of both kinds of steps for a few texts."""
    made = {"weft": milliseconds(step_of(filled(model, rows, capacity, context)))}
    kinds = {"one launch": 2, "single kernels": 0} if rows <= 2 else {}
    for name, count in kinds.items():
        with most_texts(count):
            generator = filled(model, rows, capacity, context)
        if (generator._fused is None) != (count == 0):
            raise RuntimeError(f"a step is not {name}")
        made[name] = milliseconds(step_of(generator))
    invariant = filled(model, rows, capacity, context, batch_invariant=True)
    return made | {"batch-invariant": milliseconds(step_of(invariant))}


def step_of(generator: Generator) -> Callable[[], Any]:
    """A step that begins with the same tokens each time."""
    tokens = generator._tokens.clone()

    def step() -> Any:
        generator._tokens.copy_(tokens)
        return generator._graphed()

    return step


def checked(generator: Generator, plain: PlainStep) -> dict[str, Any]:
    """The tokens of both models, and the lead of the larger one where they differ."""
    tokens = generator._tokens.clone()
    logits = plain(tokens).float()
    drawn = step_of(generator)()
    top, other = (logits.gather(1, t[:, None])[:, 0] for t in (logits.argmax(-1), drawn))
    scale = float(logits.abs().max())
    return {
        "equal tokens": int((logits.argmax(-1) == drawn).sum()),
        "largest lead over weft's": float((top - other).max()) / scale,
    }


def milliseconds(call: Callable[[], Any]) -> float:
    """The median of rounds of calls, divided by their number, after some to warm up."""
    for _ in range(STEPS):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(STEPS):
            call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / STEPS)
    return statistics.median(times)


def own(model: Decoder, form: str | None, rows: int, capacity: int, context: int) -> dict[str, Any]:
    """A row of weft's times alone; `form` is that of converted layers."""
    row: dict[str, Any] = {"batch": rows, "context": context, "failed": {}}
    row |= {} if form is None else {"format": form}
    return row | {"ms": of_weft(model, rows, capacity, context)}


def compared(model: Decoder, rows: int, capacity: int, context: int, timed: bool) -> dict[str, Any]:
    """A row of the record."""
    generator = filled(model, rows, capacity, context)
    plain = PlainStep(generator, context)
    row: dict[str, Any] = {"batch": rows, "context": context, **checked(generator, plain)}
    if not timed:
        return row
    tokens = generator._tokens.clone()
    compiled = torch.compile(plain.__call__, mode="reduce-overhead", fullgraph=True)
    contenders = {
        "torch.compile": lambda: compiled(tokens),
        "eager": lambda: plain(tokens),
    }
    row |= {"ms": of_weft(model, rows, capacity, context), "failed": {}}
    for name, call in contenders.items():
        try:
            row["ms"][name] = milliseconds(call)
        except RuntimeError as error:
            row["failed"][name] = str(error)[:200]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--own", action="store_true", help="time weft alone")
    parser.add_argument("--tiny", action="store_true", help="check a small model, without times")
    given = parser.parse_args()
    if not given.tiny and not torch.cuda.is_available():
        sys.exit("decoding.py needs a GPU; --tiny checks a small model on the simulated one")
    device, config = ("cpu", TINY) if given.tiny else ("cuda", LLAMA_8B)
    capacity, context = (32, 20) if given.tiny else (CAPACITY, CONTEXT)
    with torch.no_grad():
        model = spread(Decoder(config, device, torch.bfloat16))
        for rows in (2,) if given.tiny else BATCHES:
            if given.own:
                note(own(model, None, rows, capacity, context), False)
            else:
                note(compared(model, rows, capacity, context, timed=not given.tiny), given.tiny)
        for form, options in () if given.tiny else FORMATS:
            weft.quant.convert(model, form, skip=(), **options)
            for rows in BATCHES:
                note(own(model, form, rows, capacity, context), False)
            weft.quant.revert(model)


def note(row: dict[str, Any], tiny: bool) -> None:
    """Print a row, and append it to the record."""
    print(json.dumps(row), flush=True)
    if tiny:
        return
    row |= {"model": "Llama 3 8B", "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    with (Path(os.environ.get("OUT", ".")) / "decoding.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
