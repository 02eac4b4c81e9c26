"""`weft.ops.softmax`, `weft.ops.matmul`, …: ladders as ops of PyTorch, by their best rungs.

The best rung is the highest that is CUDA C++, unless another says `best` for the sizes (see
`Ladder.best`); rungs choose among their kernels by shape, too. Arguments are those of the ladder's
signature; a ladder `NAME_bf16` serves tensors of that type for `NAME`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from weft.climbing import ladder
from weft.climbing.climb import zeros
from weft.climbing.ladder import Ladder
from weft.climbing.rung import Runner
from weft.device import models
from weft.device.ctypes_table import CType
from weft.measure.op import Case, Slot
from weft.ops import derivatives
from weft.ops.bind import schema
from weft.ops.bind.body import Body
from weft.ops.bind.options import Options
from weft.ops.bind.signature import Signature
from weft.ops.bind.torch_op import TorchOp, register

ALIGNED = 16
"""Bytes: what a kernel that loads vectors wants of an array's address."""


class OneCall(Runner):
    """A rung whose scratch is new for each call: streams, threads and graphs never share it."""

    def _scratch(self, sizes: Mapping[str, int], like: Any) -> dict[str, Any]:
        case = Case.of(sizes)
        return {s.name: self._empty(s.dtype.name, s.shape(case), like) for s in self.rung.scratch}


@functools.cache
def offered(name: str) -> TorchOp:
    """A ladder as an op of PyTorch, `weft::NAME`."""
    served = _served(name)
    first = served[0].op
    how = derivatives.find(name)
    signature = Signature(f"weft::{name}", first.inputs, first.outputs, how.flat)
    parsed = schema.parse(signature.op, signature.schema)
    body = Body(parsed, _results(first.inputs, first.outputs), _run(signature, served),
                _takes(served))  # fmt: skip
    options = Options(
        out={s.name: signature.shape(s) for s in first.outputs},
        contiguous=True,
        backward=how.backward,
        differentiable=how.differentiable,
        vmap=how.vmap,
        autocast=torch.float32,
    )
    return register(f"weft::{name}", body, options)


def _served(name: str) -> list[Ladder]:
    """The ladder, and those that do the same for another type: softmax, softmax_bf16."""
    own = ladder.find(name)
    types = {f"{name}_{kind}" for kind in ("f16", "bf16", "f64")}
    return [own, *(ladder.find(other) for other in ladder.names() if other in types)]


def _takes(served: list[Ladder]) -> dict[str, CType]:
    """What arguments are checked against, in the words of the signature."""
    out = {}
    for i, slot in enumerate(served[0].op.inputs):
        dtypes = tuple(one.op.inputs[i].dtype.torch for one in served)
        out[slot.name] = CType(f"{slot.name} of {served[0].op.signature}", True, True, dtypes, "")
    return out


def _results(inputs: tuple[Slot, ...], outputs: tuple[Slot, ...]) -> dict[str, str]:
    """A result has the first tensor's type where the signature gives both the same."""
    return {s.name: "" if s.dtype == inputs[0].dtype else s.dtype.torch for s in outputs}


# ---- running ---------------------------------------------------------------------------------
def _run(signature: Signature, served: list[Ladder]) -> Any:
    by_type = {one.op.inputs[0].dtype.torch: one for one in served}

    def run(given: Mapping[str, Any]) -> None:
        first = given[signature.inputs[0].name]
        one = by_type[str(first.dtype).removeprefix("torch.")]
        sizes = signature.sizes(given)
        if all(given[slot.name].numel() for slot in one.op.outputs):
            arrays = {n: _aligned(t) for n, t in given.items()}
            runner = _chosen(one.path.name, str(first.device), tuple(sizes.items()))
            runner(**arrays, **sizes)

    return run


def _aligned(tensor: Any) -> Any:
    """A slice may begin anywhere; kernels that load vectors need it at a multiple of 16."""
    return tensor.clone() if tensor.data_ptr() % ALIGNED else tensor


@functools.lru_cache(maxsize=1024)
def _chosen(name: str, device: str, sizes: tuple[tuple[str, int], ...]) -> OneCall:
    """The best rung for these sizes."""
    known = {**dict(sizes), "sms": _sms(torch.device(device))}
    return _runner(name, device, ladder.find(name).best(known).number)


@functools.cache
def _runner(name: str, device: str, number: int) -> OneCall:
    one = ladder.find(name)
    rung = next(r for r in one.rungs if r.number == number)
    return OneCall(rung, one.op, sms=_sms(torch.device(device)), empty=zeros)


def _sms(device: Any) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).multi_processor_count)
    return models.get(models.DEFAULT).sms
