"""The cases of a run: the networks, dtypes and batches by default, or those that words name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.errors import ArgumentError
from weft.networks import network
from weft.values.networks import NetworkCase

DTYPES = ("bf16", "autocast", "fp32")
TRAINED = (
    ("gpt2", "124m", 8, 1024), ("gpt2", "350m", 8, 1024), ("llama", "1b", 4, 2048),
    ("bert", "base", 32, 512), ("vit", "b16", 64, 0), ("resnet", "50", 64, 224),
    ("convnext", "t", 64, 224), ("unet", "sd15", 8, 64),
)  # fmt: skip
"""Network, size, batch of a training step, length."""
INFERRED = (1, 32)
"""Batches of inference."""
CONVOLUTIONAL = ("resnet", "convnext", "unet")
"""Networks whose images are in channels last where weights have 16 bits, as users run them."""


def every() -> list[NetworkCase]:
    """The cases that are timed by default: training first."""
    return [*_cases(True), *_cases(False)]


def _cases(training: bool) -> Iterator[NetworkCase]:
    for dtype in DTYPES:
        for name, size, trained, length in TRAINED:
            for batch in (trained,) if training else INFERRED:
                yield _case(name, size, training, dtype, batch, length)


def _case(name: str, size: str, training: bool, dtype: str, batch: int, length: int) -> NetworkCase:
    last = name in CONVOLUTIONAL and dtype != "fp32"
    return NetworkCase(name, size, training, dtype, batch, length, last)


def chosen(words: str) -> list[NetworkCase]:
    """The cases that words name, all by default.

    Semicolons separate choices. A choice is a network with or without its size, `train` or
    `inference`, a dtype, `batch=N`, `length=N`, `channels_last` or `contiguous`.
    """
    choices = [choice.split() for choice in words.split(";") if choice.strip()]
    if not choices:
        return every()
    found = [case for choice in choices for case in _named(choice)]
    return list(dict.fromkeys(found))


def _named(choice: list[str]) -> list[NetworkCase]:
    """The cases of one choice; numbers replace those of the default cases."""
    cases = every()
    for word in choice:
        cases = list(dict.fromkeys(_narrowed(cases, word)))
    return cases


def _narrowed(cases: list[NetworkCase], word: str) -> Iterator[NetworkCase]:
    key, equals, value = word.partition("=")
    for case in cases:
        if key == "batch" and equals:
            yield replace(case, batch=_number(word, value))
        elif key == "length" and equals:
            yield replace(case, length=_number(word, value))
        elif word in ("train", "inference"):
            if case.training == (word == "train"):
                yield case
        elif word in ("channels_last", "contiguous"):
            yield replace(case, channels_last=word == "channels_last")
        elif word in DTYPES:
            if case.dtype == word:
                yield case
        else:
            yield from _of_network(case, word)


def _of_network(case: NetworkCase, word: str) -> Iterator[NetworkCase]:
    """The case, if a word names its network; with another size that the word names."""
    name, _, size = word.partition("-")
    if name not in {row[0] for row in TRAINED}:
        raise ArgumentError(
            "no case of `weft bench networks` has this word",
            got=word,
            allowed=f"{', '.join(dict.fromkeys(row[0] for row in TRAINED))} with or without a size;"
            f" train, inference, {', '.join(DTYPES)}, batch=N, length=N, channels_last, contiguous",
            next="--list shows the cases",
        )
    if case.network != name:
        return
    if not size or size == case.size:
        yield case
    elif (name, size) not in {row[:2] for row in TRAINED}:
        if size not in network.sizes(name):
            network.network(name, size, device="meta")  # raises, and names the sizes
        yield replace(case, size=size, length=0 if size == "tiny" else case.length)


def _number(word: str, value: str) -> int:
    if not value.isdigit() or int(value) < 1:
        raise ArgumentError(
            "a batch and a length are positive integers", got=word, allowed="batch=8, length=1024"
        )
    return int(value)
