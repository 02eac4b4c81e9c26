"""The norm whose result is the input of a linear layer, and of nothing else.

Scales can be folded into such a norm. A model is not a graph, so the tensors are followed while it
runs: results of norms are known by identity, and a function mode of PyTorch sees what uses them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from weft import nn
from weft.quant.batches import first

NORMS = (torch.nn.LayerNorm, torch.nn.RMSNorm, nn.LayerNorm, nn.RMSNorm)
"""Norms that end in a product with one weight for each channel; a subclass may differ."""


def norms(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """The norms of a model that have weights of one dimension, by name."""
    found = ((name, m) for name, m in model.named_modules() if type(m) in NORMS)
    return {name: m for name, m in found if m.weight is not None and m.weight.dim() == 1}


class Sources(TorchFunctionMode):  # type: ignore[misc]
    """Follows the results of norms while the model runs inside of it.

    readers  layer -> the norms that made its inputs; None is any other origin
    others   norms whose results are used by something else than the linear layers
    """

    def __init__(self, model: torch.nn.Module, layers: Mapping[str, torch.nn.Module]) -> None:
        super().__init__()
        self.readers: dict[str, set[str | None]] = defaultdict(set)
        self.others: set[str] = set()
        self._results: dict[int, tuple[str, torch.Tensor]] = {}  # holds them: an id stays theirs
        self._inside = 0
        self._hooks = [h for name, m in norms(model).items() for h in self._norm(name, m)]
        self._hooks += [h for name, m in layers.items() for h in self._layer(name, m)]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        # Shapes and dtypes are read without a result that is a tensor.
        if not self._inside and self._results and _tensors(result):
            self._use((args, kwargs))
        return result

    def ended(self, output: Any) -> None:
        """Take the result of the model; a norm's result in it is used by the caller."""
        self._use(output)
        self._results.clear()

    def remove(self) -> None:
        """Take the hooks off the model."""
        for hook in self._hooks:
            hook.remove()

    def foldable(self) -> dict[str, str]:
        """Layer -> the norm that makes all of its inputs, and nothing but inputs of layers."""
        alone = {name: next(iter(found)) for name, found in self.readers.items() if len(found) == 1}
        mixed = set().union(*(found for found in self.readers.values() if len(found) > 1))
        bad = self.others | mixed
        return {name: norm for name, norm in alone.items() if norm is not None and norm not in bad}

    def _use(self, value: Any) -> None:
        for tensor in _tensors(value):
            if id(tensor) in self._results:
                self.others.add(self._results[id(tensor)][0])

    def _norm(self, name: str, module: torch.nn.Module) -> list[Any]:
        def begin(_: Any, inputs: Any) -> None:
            self._use(inputs)  # a norm of a norm
            self._inside += 1

        def end(_: Any, inputs: Any, output: torch.Tensor) -> None:
            self._inside -= 1
            self._results[id(output)] = (name, output)

        return [module.register_forward_pre_hook(begin), module.register_forward_hook(end)]

    def _layer(self, name: str, module: torch.nn.Module) -> list[Any]:
        def begin(_: Any, inputs: Any, named: Any) -> None:
            norm, _tensor = self._results.get(id(first(inputs, named)), (None, None))
            self.readers[name].add(norm)
            self._inside += 1

        def end(_: Any, inputs: Any, output: Any) -> None:
            self._inside -= 1

        return [
            module.register_forward_pre_hook(begin, with_kwargs=True),
            module.register_forward_hook(end),
        ]


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
