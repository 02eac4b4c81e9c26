"""The base of the optimisers: one launch per dtype of a group, and states as torch's have them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from weft.errors import ArgumentError
from weft.kernels import Kernel
from weft.ops.core import source
from weft.optim.bucket import Bucket, Make
from weft.optim.clip import norm
from weft.optim.layouts import Layouts
from weft.optim.scalars import DTYPES, one, zero

VECTOR, UNROLL, THREADS, ELEMENTS = 4, 2, 128, 4096
"""Elements per load, loads before the first use, threads and elements of a block."""


class _BucketCache(NamedTuple):
    """The buckets of a group, and the parameters, layouts and options they were made for."""

    params: list[Any]
    layouts: Layouts
    options: list[Any]
    buckets: list[Bucket]

    def serve(self, params: Sequence[Any], tensors: Sequence[Any], options: list[Any]) -> bool:
        """True if the buckets fit the parameters and gradients as they are now."""
        return (
            options == self.options
            and len(params) == len(self.params)
            and all(map(operator.is_, params, self.params))
            and self.layouts.fit(tensors)
            and all(bucket.is_current() for bucket in self.buckets)
        )


class FusedOptimiser:
    """Mixed into an optimiser of torch: `step` changes all parameters of a dtype in one launch.

    Arguments, parameter groups and `state_dict` are torch's, so checkpoints load both ways.
    Subclasses say which states there are and which kernel changes them.

    master_weights  parameters of 16 bits have states and a copy of themselves in float32
    max_grad_norm   gradients are scaled in the step so that the norm of all is at most this
    """

    param_groups: list[dict[str, Any]]
    defaults: dict[str, Any]
    state: dict[Any, dict[str, Any]]
    _norm: torch.Tensor | None = None
    own: Mapping[str, Any] = MappingProxyType({"master_weights": False, "max_grad_norm": None})
    """The options that torch's optimisers do not have, and their defaults."""
    deciding: Sequence[str] = ("master_weights",)
    """The options of a group that decide which states there are."""

    def __init__(self, params: Any, *args: Any, **options: Any):
        chosen = {name: options.pop(name, default) for name, default in self.own.items()}
        super().__init__(params, *args, **{**options, "fused": True})  # type: ignore[call-arg]
        self.defaults |= chosen
        self._complete_groups()

    def _complete_groups(self) -> None:
        for group in self.param_groups:
            for name, default in self.own.items():
                group.setdefault(name, self.defaults.get(name, default))

    def kinds(self, group: dict[str, Any], dtype: torch.dtype) -> Mapping[str, Make]:
        """The states of a parameter in the order of the kernel's lists, and what makes them."""
        raise NotImplementedError

    def launch(self, bucket: Bucket, group: dict[str, Any], lists: Sequence[Any]) -> None:
        """Launch the kernel of a group."""
        raise NotImplementedError

    def step(self, closure: Any = None) -> Any:
        """Change all parameters that have a gradient; return the closure's result."""
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        with torch.no_grad():
            self._measure()
            for number, group in enumerate(self.param_groups):
                for bucket in self._buckets(number, group):
                    bucket.run(functools.partial(self.launch, bucket, group))
        return result

    def _measure(self) -> None:
        """Compute the norm of all gradients and the factor that limits it."""
        limit = self.defaults.get("max_grad_norm")
        if limit is None:
            return
        grads = [p.grad for g in self.param_groups for p in g["params"] if p.grad is not None]
        if grads:
            self._norm = norm(grads, float(limit), divisor=getattr(self, "grad_scale", None))

    @property
    def grad_norm(self) -> torch.Tensor | None:
        """The norm of all gradients in the last step; None without `max_grad_norm`."""
        return None if self._norm is None else self._norm[0]

    def scales(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The factor and the divisor of gradients, and the flag to skip the step."""
        divisor = getattr(self, "grad_scale", None)  # torch.amp.GradScaler sets both
        skip = getattr(self, "found_inf", None)
        return (
            one(device) if self._norm is None else self._norm[1],
            one(device) if divisor is None else divisor,
            zero(device) if skip is None else skip,
        )

    # ---- buckets -------------------------------------------------------------------------------
    def _buckets(self, number: int, group: dict[str, Any]) -> list[Bucket]:
        """The buckets of a group; those of the last step where they still fit."""
        params: list[Any] = group["params"]
        tensors = [*params, *[p.grad for p in params]]
        options = [group[name] for name in self.deciding]
        every: dict[int, _BucketCache] = self.__dict__.setdefault("_kept", {})
        kept = every.get(number)
        if kept is None or not kept.serve(params, tensors, options):
            kept = _BucketCache(list(params), Layouts(tensors), options, self._built(group))
            every[number] = kept
        return kept.buckets

    def _built(self, group: dict[str, Any]) -> list[Bucket]:
        parts: dict[Any, list[Any]] = {}
        for p in group["params"]:
            if p.grad is not None:
                parts.setdefault((p.dtype, p.device), []).append(p)
        buckets = []
        for (dtype, device), params in parts.items():
            _check(type(self).__name__, dtype, device)
            kinds = self.kinds(group, dtype)
            for first, some in self.split(group, params):
                states = [self.state[p] for p in some]
                buckets.append(Bucket(some, states, kinds, ELEMENTS, first))
        return buckets

    def split(self, group: dict[str, Any], params: list[Any]) -> list[tuple[bool, list[Any]]]:
        """Parts whose first step is this one (True), where it is another than later ones."""
        return [(False, params)]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[misc]
        self._complete_groups()
        self.__dict__.pop("_kept", None)  # the states have been replaced

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that this optimiser or torch's own has saved."""
        super().load_state_dict(state_dict)  # type: ignore[misc]
        # torch converts all states to the dtype of the parameter, master weights as well, and
        # shares those that it need not convert.
        saved = [i for group in state_dict["param_groups"] for i in group["params"]]
        params = [p for group in self.param_groups for p in group["params"]]
        for number, p in zip(saved, params, strict=True):
            for name, value in state_dict["state"].get(number, {}).items():
                if isinstance(value, torch.Tensor):
                    self.state[p][name] = value.to(p.device, copy=True)


def _check(optimiser: str, dtype: torch.dtype, device: torch.device) -> None:
    if dtype not in DTYPES:
        raise ArgumentError(
            f"weft.optim.{optimiser}: no kernel changes parameters of this dtype",
            got=str(dtype),
            allowed="float32, float16, bfloat16",
        )
    if device.type not in ("cpu", "cuda"):
        raise ArgumentError(
            f"weft.optim.{optimiser}: parameters are on a device without kernels",
            got=str(device),
            allowed="cpu (the simulated GPU) or cuda",
        )


def float_zeros(p: Any) -> torch.Tensor:
    """A state in single precision."""
    return torch.zeros_like(p, dtype=torch.float32)


def kernel(name: str, dtype: torch.dtype, state: torch.dtype, master: bool, *flags: bool) -> Kernel:
    """The kernel of a rule: "adam" or "sgd"."""
    types = f"{source.ctype(dtype)}, {source.ctype(state)}"
    switches = ", ".join(str(flag).lower() for flag in (master, *flags))
    shape = f"{VECTOR}, {UNROLL}, {THREADS}, {ELEMENTS}"
    return source.kernel("../../optim/step.cu", f"{name}<{types}, {switches}, {shape}>")
