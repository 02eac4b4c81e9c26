"""A decoding step in one launch: its memory, and the table of weights that it reads."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.frontends import launches
from weft.frontends.addresses import extent
from weft.llm.cache import Cache
from weft.llm.decoder import Decoder, product
from weft.llm.fused.model import Form, Weights, form, form_of
from weft.llm.fused.plan import WARPS, DecodePlan, fits, plan
from weft.ops.core import library
from weft.ops.core.target import target


class FusedStep:
    """One token of each text through all layers of a model, and its head if that has their form.

    Called with tokens and positions, it stores keys and values in the cache and returns logits.
    A head of another form is a product of its own.
    """

    def __init__(
        self, model: Decoder, cache: Cache, found: Form, cos: Any, sin: Any, planned: DecodePlan
    ) -> None:
        c, rows, device = model.config, cache.rows, model.device
        self.model, self.cache, self.plan = model, cache, planned
        self.has_head: bool = planned.struct.products > 4 * c.depth
        where = {"device": device}

        def made(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, **where)

        self._angles = (cos, sin)
        inner = c.heads * c.head_size
        self._x = made(rows, c.width)
        self._heads = made(rows, inner + 2 * c.kv_heads * c.head_size)
        self._partial = made(planned.partial)
        self._attended = made(rows, inner, dtype=model.dtype)
        self._hidden = made(rows, c.hidden, dtype=model.dtype)
        self._counters = torch.zeros(1 + rows * c.kv_heads, dtype=torch.int32, **where)
        self._logits = made(rows, c.vocabulary if self.has_head else 0, dtype=model.dtype)
        self._weights = Weights(model, found, cache.keys, cache.values, self.has_head)

    @classmethod
    def of(cls, model: Decoder, cache: Cache, cos: Any, sin: Any) -> FusedStep | None:
        """The step of a model with its present weights; None if the kernel does not take it."""
        c, rows, dtype, gpu = model.config, cache.rows, model.dtype, target(model.device)
        whole = not cache.is_paged and cache.keys[0].dtype is dtype
        whole = whole and not any(cache.windows)
        found = form(model) if whole else None
        if found is None or not fits(c, found.bits, rows, dtype, gpu):
            return None
        has_head = form_of(model.head, dtype) == found and model.head.bias is None
        made = plan(c, found, rows, cache.capacity, dtype, gpu, has_head)
        return None if made is None else cls(model, cache, found, cos, sin, made)

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Run the step for the tokens [rows] at these positions."""
        launch = self.plan.kernel[self.plan.blocks, 32 * (WARPS + 1), self.plan.shared]
        given = (
            self._weights.words, self._weights.maps, tokens, positions,
            self.model.embedding.weight, *self._angles, self._x, self._heads, self._partial,
            self._attended, self._hidden, self._counters,
            self._logits if self.has_head else None, self.plan.struct.pack(),
        )  # fmt: skip
        if tokens.device.type == "cuda":
            launch(*given)
        else:
            all_given = [t for row in self._weights.given for t in row if t is not None]
            memory = [extent(t, "a tensor of the model") for t in all_given]
            run = functools.partial(launch.reaching, memory, *given)
            self._counters.zero_()  # a launch that was stopped has left numbers
            launches.run("weft.llm", run, (given, all_given))
        if self.has_head:
            return self._logits
        norm = self.model.norm
        y = library.call("rms_norm")(
            self._x.to(self.model.dtype), (self._x.shape[1],), norm.weight, norm.eps
        )
        return product(self.model.head, y)
