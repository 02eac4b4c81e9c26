"""Writes the computation of a layer that takes most of its time as a ladder to climb."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import weft.climbing.extract as kinds
from weft.climbing import scaffold
from weft.climbing.extract import norm
from weft.climbing.extract.computation import Computation, refused
from weft.values.model import Call, ModuleFacts, TensorType

OP = '''"""{about}

This is {operation} in {layer} of {script}.
"""

import torch

import weft


def computed({names}):
    """The layer in PyTorch."""
    return {call}


def reference(*arrays):
    """The same in float64."""
    return computed(*(torch.tensor(array) for array in arrays)).numpy()


op = weft.Op(
    "{name}",
    "{signature}",
    reference=reference,
    cases=[
{cases}
    ],
    bench=[weft.Case({sizes})],  # the sizes of the model
    flops="{flops}",
    bytes="{bytes}",
    peers=[
        "{call}",
        "compile: {call}",
    ],
    ceiling="{ceiling}",
    target="peer 1.0",
{more})
'''

TEXT = """# {name}

{about} It is {operation} in the layer `{layer}` of `{script}`. It has {share:.0%} of the modelled
time of the layer's forward pass.

- `weft climb {folder}` checks and counts the rungs on the simulated GPU.
- `weft climb {folder} --device gpu` also times them, beside PyTorch, at the sizes of the model:
  {sizes}.
- Copy `rung_00_naive.cu` to `rung_01_NAME.cu`, change one thing, write its idea into the header,
  and climb again.
- weft's own ladder `{like}` shows what helps: `weft climb {like} --html {like}.html`.
"""


KINDS = (
    "activations, attention without a mask, convolutions of two dimensions, linear layers, layer "
    "norm, RMS norm, softmax"
)


@dataclass(frozen=True)
class Extracted:
    """A computation of a layer, and where it was found."""

    layer: str
    operation: str
    computation: Computation
    share: float


def find(layer: str, calls: Sequence[Call], modules: Mapping[str, ModuleFacts]) -> Extracted:
    """The computation of a layer that takes most of its time; raise where no ladder can have it.

    calls  the forward calls of one step in the layer and in its parts

    A layer's own operations come first, as in the rows of a profile; those of its parts are taken
    if none of its own can be a ladder.
    """
    whole = _rms_norm(layer, calls, modules)
    if whole is not None:
        return Extracted(layer, "RMS norm", whole, 1.0)
    if not calls:
        raise refused("it ran nothing in the step", layer, KINDS)
    known = operations()
    own = [c for c in calls if c.place.module == layer and (c.operation or c.name) in known]
    (path, operation), found = _most(own or calls)
    if operation not in known:
        raise refused(f"{operation} takes most of the time of {path}", operation, KINDS)
    made = known[operation](operation, found[0].operands)
    share = sum(c.time for c in found) / (sum(c.time for c in calls) or 1.0)
    return Extracted(path, operation, made, share)


def _most(calls: Sequence[Call]) -> tuple[tuple[str, str], list[Call]]:
    """The (module, operation) with the most time, and its calls with the same operands."""
    groups: dict[tuple[str, str, str], list[Call]] = {}
    for call in calls:
        key = (call.place.module, call.operation or call.name, repr(sorted(call.operands.items())))
        groups.setdefault(key, []).append(call)
    (path, operation, _), found = max(groups.items(), key=lambda item: sum(c.time for c in item[1]))
    return (path, operation), found


def operations() -> dict[str, Any]:
    """Operation -> the function that describes it."""
    found: dict[str, Any] = {}
    for info in pkgutil.iter_modules(kinds.__path__):
        module = importlib.import_module(f"{kinds.__name__}.{info.name}")
        found |= {name: module.describe for name in getattr(module, "OPERATIONS", ())}
    return found


def _rms_norm(
    layer: str, calls: Iterable[Call], modules: Mapping[str, ModuleFacts]
) -> Computation | None:
    """An RMS norm that is written as several operations, known by the name of its class."""
    facts = modules.get(layer)
    if facts is None or not re.search(r"rms_?norm", facts.kind, re.IGNORECASE):
        return None
    own = [c for c in calls if c.place.module == layer]
    if any((c.operation or c.name) in norm.OPERATIONS for c in own):
        return None
    tensors = [v for c in own for v in c.operands.values() if isinstance(v, TensorType)]
    floats = [v for c in own for n, v in c.operands.items() if n == "other" and _is_small(v)]
    largest = max(tensors, key=lambda t: len(t.shape) and t.shape[-1] * len(t.shape), default=None)
    if largest is None:
        return None
    weight = TensorType(largest.dtype, largest.shape[-1:]) if facts.parameters else None
    values = {"input": largest, "weight": weight, "eps": floats[0] if floats else None}
    return norm.describe("rms_norm", values)


def _is_small(value: Any) -> bool:
    return isinstance(value, float) and 0 < value < 1e-2


def write(found: Extracted, script: str, name: str, where: Path) -> list[Path]:
    """Write the folder of a ladder; raise if there is one."""
    folder = scaffold.new_folder(name, where, "--name NAME, --in FOLDER")
    shown = folder if folder.is_absolute() else f"./{folder}"
    return scaffold.write(folder, _texts(found, script, name, str(shown)))


def _texts(found: Extracted, script: str, name: str, folder: str) -> dict[str, str]:
    made = found.computation
    words = {
        "name": name, "layer": found.layer, "operation": found.operation, "script": script,
        "about": made.about, "signature": made.signature, "call": made.call, "flops": made.flops,
        "bytes": made.bytes, "ceiling": made.ceiling, "more": made.more, "like": made.like,
        "sizes": _sizes(made.sizes), "share": found.share, "folder": folder,
        "names": ", ".join(re.findall(r"(\w+):", made.signature.split("->")[0])),
        "cases": "\n".join(_case(sizes, why) for sizes, why in made.small),
    }  # fmt: skip
    return {
        "op.py": OP.format(**words),
        "rung_00_naive.cu": f"// rung:   00 naive\n{made.rung}",
        "ladder.md": TEXT.format(**words),
    }


def _case(sizes: Mapping[str, int], why: str) -> str:
    reason = f', why="{why}"' if why else ""
    return f"        weft.Case({_sizes(sizes)}{reason}),"


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={n}" for name, n in sizes.items())
