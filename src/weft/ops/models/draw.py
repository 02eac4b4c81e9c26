"""Draw layer calls of public models by a seed, within limits of work and memory.

The calls depend on the seed alone: filters leave calls of the same row out.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from weft.device import models as gpus
from weft.measure.bench.bench import ceiling
from weft.ops.models.calls import Work
from weft.ops.models.config import Model
from weft.ops.models.layers import Layer, Setting, layers
from weft.values.models import LayerCall

WEIGHTS = {
    "products": 34, "attention": 18, "conv": 16, "norm": 11, "activation": 7, "residual": 3,
    "softmax": 3, "embedding": 3, "loss": 3, "pool": 2,
}  # fmt: skip
"""Shares of the kinds of layers, in percent."""
DTYPES = {"bfloat16": 50, "float16": 35, "float32": 15}
LENGTHS = (16, 77, 128, 197, 512, 700, 1000, 1024, 2048, 4096, 8192)
"""Tokens of a text; 1 is a step of decoding."""
BATCHES = (1, 1, 2, 3, 4, 8, 16, 32, 64, 100, 128)
DECODING = 0.3
"""Share of calls of text models that are a step of decoding."""
TRAINING = 0.35
"""Share of calls that are forward and backward."""
LAST = {"bfloat16": 0.6, "float16": 0.6, "float32": 0.3}
"""Share of images that have their channels last."""
REFERENCE_GPU = "h200"
MOST_SECONDS = 1.2e-3
"""The least time of a call on the reference GPU may not exceed this."""
PRECISION = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}
TRIES = 400
"""Calls drawn in a row of which none is wanted, after which drawing ends."""


@dataclass(frozen=True)
class Drawn:
    """A layer in some circumstances: what it is, the call, and the least time of it."""

    model: Model
    layer: Layer
    setting: Setting
    work: Work

    def __str__(self) -> str:
        return words(self)

    @property
    def case(self) -> str:
        """The name of its judge and peers."""
        return self.work.case + (" backward" if self.setting.backward else "")

    def described(self) -> LayerCall:
        """The description of the call, as a value."""
        flops, moved = self.work.cost(self.setting.backward)
        seconds, bound = least(self.work, self.setting)
        return LayerCall(
            self.model.name, self.model.group, self.layer.kind, self.layer.name, words(self),
            self.setting.dtype, self.setting.backward, str(self.work.call), flops, moved, seconds,
            bound,
        )  # fmt: skip


def words(drawn: Drawn) -> str:
    """The words that name a call, and make it again: "gpt2 qkv batch=4 tokens=77 float16"."""
    s, sizes = drawn.setting, drawn.layer.sizes
    parts = [drawn.model.name, drawn.layer.name, f"batch={s.batch}"]
    parts += [f"{name}={getattr(s, name)}" for name in ("tokens", "keys") if name in sizes]
    parts += ["channels_last"] if s.last and "last" in sizes else []
    return " ".join([*parts, s.dtype, *(["backward"] if s.backward else [])])


def least(work: Work, setting: Setting) -> tuple[float, str]:
    """The least seconds of a call on the reference GPU, and the resource that limits it."""
    flops, moved = work.cost(setting.backward)
    return ceiling(gpus.get(REFERENCE_GPU), moved, flops, PRECISION[setting.dtype])


def drawn(
    every: Collection[Model], seed: int, count: int,
    only_models: Collection[str] = (), kinds: Collection[str] = (),
) -> list[Drawn]:  # fmt: skip
    """The first `count` wanted calls of those that a seed stands for; none is there twice."""
    found: dict[str, Drawn] = {}
    vain = 0
    for one in _row(every, random.Random(f"models {seed}")):
        vain += 1
        wanted = not only_models or one.model.name in only_models
        if wanted and (not kinds or one.layer.kind in kinds) and words(one) not in found:
            found[words(one)] = one
            vain = 0
        if len(found) >= count or vain > TRIES:
            break
    return list(found.values())


def _row(every: Collection[Model], rng: random.Random) -> Iterator[Drawn]:
    """Calls without an end: a kind of layer, a model that has it, a layer, circumstances."""
    by_kind: dict[str, dict[str, list[tuple[Model, Layer]]]] = {}
    for model in every:
        for layer in layers(model):
            by_kind.setdefault(layer.kind, {}).setdefault(model.name, []).append((model, layer))
    kinds = [kind for kind in WEIGHTS if kind in by_kind]
    while True:
        kind = rng.choices(kinds, [WEIGHTS[k] for k in kinds])[0]
        model, layer = rng.choice(by_kind[kind][rng.choice(list(by_kind[kind]))])
        if one := _within_limits(model, layer, _setting(rng, model, layer)):
            yield one


def _setting(rng: random.Random, model: Model, layer: Layer) -> Setting:
    dtype = rng.choices(list(DTYPES), list(DTYPES.values()))[0]
    backward = layer.trained and rng.random() < TRAINING
    texts = [n for n in LENGTHS if n <= (model.context or max(LENGTHS))]
    batch, tokens, keys = rng.choice(BATCHES), 1, 0
    if "tokens" in layer.sizes:
        tokens = rng.choice(layer.tokens or texts)
        if not layer.tokens and model.decodes and not backward and layer.kind != "attention":
            tokens = 1 if rng.random() < DECODING else tokens
    if "keys" in layer.sizes:
        keys = rng.choice(layer.keys or texts)
    last = rng.random() < LAST[dtype] and "last" in layer.sizes
    return Setting(batch, tokens, keys, dtype, backward, last)


def _within_limits(model: Model, layer: Layer, setting: Setting) -> Drawn | None:
    """The call, with a smaller batch or a shorter text if it is too much; None if it stays so."""
    while True:
        work = layer.make(setting)
        if least(work, setting)[0] <= MOST_SECONDS:
            return Drawn(model, layer, setting, work)
        if setting.batch > 1:
            setting = replace(setting, batch=setting.batch // 2)
        elif not layer.tokens and setting.tokens > 16:
            setting = replace(setting, tokens=setting.tokens // 2)
        else:
            return None
