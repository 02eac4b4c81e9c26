"""The calls that words name: "llama3-8b products tokens=1,16,700", "resnet50 conv batch=64"."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.errors import ArgumentError
from weft.ops.models.config import Model
from weft.ops.models.draw import DTYPES, Drawn, words
from weft.ops.models.layers import Layer, Setting, layers

NUMBERS = ("batch", "tokens", "keys")
TEXT, CACHE = 512, 2048
"""Tokens of a text and of a cache of keys where words give none."""
PASSES = {"forward": False, "backward": True}
ALIASES = {"linear": "products"}
_NEXT = "`weft bench models --list` shows calls in these words"


@dataclass
class _Wanted:
    """The words of one line, by what they name; patterns are of layers, kinds or ops."""

    models: list[str] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    passes: list[bool] = field(default_factory=list)
    last: bool = False
    numbers: dict[str, tuple[int, ...]] = field(default_factory=dict)


def named(every: Mapping[str, Model], lines: Sequence[str]) -> list[Drawn]:
    """The calls of all lines, each once; raise for words that name no call."""
    found: dict[str, Drawn] = {}
    for line in lines:
        wanted = _read(every, line)
        chosen = [every[name] for name in wanted.models] or list(every.values())
        pairs = [(m, x) for m in chosen for x in layers(m) if _matches(x, wanted.patterns)]
        calls = [one for m, layer in pairs for one in _calls(m, layer, wanted)]
        if not calls:
            raise ArgumentError("no layer has this name", got=line, next=_NEXT)
        found |= {words(one): one for one in calls}
    return list(found.values())


def _read(every: Mapping[str, Model], line: str) -> _Wanted:
    wanted = _Wanted()
    for word in line.split():
        name, equals, value = word.partition("=")
        if equals:
            if name not in NUMBERS or not all(v.isdigit() and int(v) for v in value.split(",")):
                allowed = ", ".join(f"{n}=NUMBER,…" for n in NUMBERS)
                raise ArgumentError("a size cannot be read", got=word, allowed=allowed)
            wanted.numbers[name] = tuple(map(int, value.split(",")))
        elif word in every:
            wanted.models.append(word)
        elif word in DTYPES:
            wanted.dtypes.append(word)
        elif word in PASSES:
            wanted.passes.append(PASSES[word])
        elif word == "channels_last":
            wanted.last = True
        else:
            wanted.patterns.append(ALIASES.get(word, word))
    return wanted


def _matches(layer: Layer, patterns: Sequence[str]) -> bool:
    """True if the layer's kind or name is among the patterns, or if there are none."""
    names = (layer.kind, layer.name)
    return not patterns or any(fnmatch.fnmatch(n, p) for n in names for p in patterns)


def _calls(model: Model, layer: Layer, wanted: _Wanted) -> list[Drawn]:
    given = wanted.numbers
    tokens = _sizes("tokens", layer, layer.tokens, given, min(TEXT, model.context or TEXT))
    keys = _sizes("keys", layer, layer.keys, given, CACHE)
    settings = [
        Setting(batch, rows, columns, dtype, backward, wanted.last and "last" in layer.sizes)
        for batch, rows, columns, dtype, backward in itertools.product(
            given.get("batch", (1,)), tokens, keys, wanted.dtypes or ["bfloat16"],
            wanted.passes or [False],
        )
        if layer.trained or not backward
    ]  # fmt: skip
    return [Drawn(model, layer, setting, layer.make(setting)) for setting in settings]


def _sizes(
    name: str, layer: Layer, fixed: Sequence[int], given: Mapping[str, Sequence[int]], default: int
) -> Sequence[int]:
    """The numbers of tokens or keys of a layer: those given, as far as the layer can have them."""
    if name not in layer.sizes:
        return (0,) if name == "keys" else (1,)
    if fixed:
        return [n for n in fixed if n in given.get(name, fixed)]
    return given.get(name, (default,))
