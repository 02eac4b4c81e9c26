"""Make the recipe of a recorded call: what its setup saves, and how its formula is called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from weft.ops.core import eager
from weft.ops.core.native import build, launches, loaded, trace
from weft.ops.core.native.launches import NONE

WORDS = 0x57EF7_5EED_0001, 0x57EF7_0FF5E7_0004
"""The words of a call that a recipe is made of, and a formula traced with; no others are equal."""
PROGRAMS = 16
"""The most backward programs of a recipe; gradients of other layouts take the formula in Python."""


class Recorded(Protocol):
    """An op with a gradient; see `function.Definition` for its parts."""

    arguments: list[Any]
    tensors: list[str]
    definition: Any


class Refused(Exception):
    """A call that only Python can record."""


class _Setup:
    """The context of a setup: records the calls of its methods."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.saved: tuple[Any, ...] = ()
        self.constant: list[int] = []
        self.materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.constant = [id(t) for t in tensors]

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize = value

    def stored(self) -> dict[str, Any]:
        """Values that a formula finds in its context besides the saved tensors."""
        own = ("saved", "constant", "materialize")
        found = {name: value for name, value in vars(self).items() if name not in own}
        if any(map(_has_tensor, found.values())):
            raise Refused("a tensor that is stored without save_for_backward")
        return found


class _Context:
    """The context of a formula: what torch's has, and what the setup has stored."""

    def __init__(self, saved: Sequence[Any], stored: dict[str, Any]) -> None:
        self.saved_tensors = tuple(saved)
        self.__dict__.update(stored)


def _plain() -> bool:
    """True if no gradients of gradients are wanted and nothing of torch must see the ops."""
    return not torch.is_grad_enabled() and eager.plain() and not loaded.capturing()


@dataclass
class _Formula:
    """The formula of one recipe, as the C++ code calls it; it teaches the recipe its programs."""

    op: Recorded
    stored: dict[str, Any]
    zeros: list[Callable[[], torch.Tensor]] | None
    words: tuple[int, ...]
    left: int = field(default=PROGRAMS)

    def __call__(
        self, saved: tuple[Any, ...], gradients: tuple[Any, ...], recipe: Any, words: Sequence[int]
    ) -> Sequence[Any]:
        results = self._gradients(saved, gradients, words)
        if self.left and self.op.definition.traceable and _plain():
            self.left -= 1
            self._learn(saved, gradients, recipe)
        return results

    def _gradients(
        self, saved: Sequence[Any], gradients: Sequence[Any], words: Sequence[int]
    ) -> Sequence[Any]:
        """The gradients of the op's tensors."""
        if self.zeros is not None:
            pairs = zip(gradients, self.zeros, strict=True)
            gradients = [make() if g is None else g for g, make in pairs]
        own = dict(zip(self.words, words, strict=False))
        stored = {n: own.get(v, v) if type(v) is int else v for n, v in self.stored.items()}
        every = self.op.definition.backward(_Context(saved, stored), *gradients)
        of_all = every if isinstance(every, tuple | list) else (every,)
        needs = self.stored["needs_input_grad"]
        rows = zip(self.op.arguments, of_all, needs, strict=False)
        return [g if need else None for a, g, need in rows if a.name in self.op.tensors]

    def _learn(self, saved: tuple[Any, ...], gradients: tuple[Any, ...], recipe: Any) -> None:
        tensors, count = (*saved, *gradients), len(saved)
        try:
            steps, results = trace.traced(
                lambda own: self._gradients(own[:count], own[count:], self.words),
                tensors,
                self.words,
            )
        # RuntimeError: an op that refuses to be traced, or memory for both runs is missing. The
        # gradients are known already, and the formula serves further calls.
        except (trace.Untraceable, RuntimeError):
            self.left = 0
            return
        module = build.started().module
        module.learn(recipe, tensors, module.program(steps, results))


@dataclass(frozen=True)
class Around:
    """A call of another op, which this op's call is the first part of.

    count   the tensors of that call
    places  the tensors of this op among them
    then    the steps that follow those of this op
    """

    count: int
    places: Sequence[int]
    then: Sequence[launches.Row]


def recipe(
    op: Recorded, entry: Any, results: int, args: Sequence[Any], around: Around | None = None
) -> Any:
    """The recipe of calls like this one; raises Refused.

    entry    the plan of the call
    results  how many results the call returns, the first ones; 0: all
    """
    words = WORDS[: len(op.definition.varying)]
    varying = dict(zip(op.definition.varying, words, strict=True))
    names = [a.name for a in op.arguments]
    # Each gets an identity of its own: two arguments may be one tensor.
    own = [
        a.detach() if isinstance(a, torch.Tensor) else varying.get(name, a)
        for a, name in zip(args, names, strict=True)
    ]
    tensors = [a for a, name in zip(own, names, strict=True) if name in op.tensors]
    with torch.no_grad():
        made = entry.run(*tensors, *words)
    outputs = made if isinstance(made, tuple) else (made,)
    setup = _Setup(tuple(isinstance(a, torch.Tensor) and a.requires_grad for a in args))
    op.definition.setup(setup, tuple(own), made)
    module, returned = build.started().module, outputs[: results or None]
    stored = setup.stored()
    if not set(words) <= {v for v in stored.values() if type(v) is int}:
        raise Refused("an integer of the call that the setup does not keep as it is")
    around = around or Around(len(tensors), range(len(tensors)), ())
    step = launches.step(entry, around.places, None if words else ())
    if step is None:
        raise Refused("a plan that only Python runs")
    made_at = [around.count + i for i in range(len(outputs))]
    forward = module.program([step, *around.then], made_at[: len(returned)])
    formula = _Formula(op, stored, _zeros(returned) if setup.materialize else None, words)
    places = dict(enumerate((*around.places, *made_at))) | {NONE: NONE}
    return module.recipe(
        f"weft_{op.definition.name}Backward", forward, list(around.places),
        [places[n] for n in _numbers(setup.saved, (*tensors, *outputs))],
        [_is_differentiable(t) and id(t) not in setup.constant for t in returned], formula,
    )  # fmt: skip


def _numbers(saved: Sequence[Any], tensors: Sequence[Any]) -> list[int]:
    places = {id(t): i for i, t in enumerate(tensors) if t is not None}
    if not all(t is None or id(t) in places for t in saved):
        raise Refused("a saved tensor that is neither argument nor result")
    return [NONE if t is None else places[id(t)] for t in saved]


def _zeros(tensors: Sequence[Any]) -> list[Callable[[], torch.Tensor]]:
    """Functions that make a gradient of zeros for each result."""
    return [
        functools.partial(torch.zeros, t.shape, dtype=t.dtype, device=t.device) for t in tensors
    ]


def _is_differentiable(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _has_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_tensor, value))
    return isinstance(value, torch.Tensor)
