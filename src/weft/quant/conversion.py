"""Turn the linear layers of a model into quantised ones, and back."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from weft.errors import ArgumentError
from weft.quant.batches import check_model, linear_layers
from weft.quant.calibration import Calibration
from weft.quant.layers import KEPT, DynamicLinear, Linear, Original, Outliers
from weft.quant.plan import Plan, plan
from weft.quant.rounding import quantise
from weft.quant.smoothing import factors, fold, shared


def convert(
    model: torch.nn.Module,
    format: str,
    group: int | str | None = None,
    *,
    symmetric: bool = True,
    skip: Sequence[str] = ("lm_head",),
    dynamic: bool = False,
    calibration: Calibration | None = None,
    smooth: float | None = None,
    keep: float = 0.0,
    keep_originals: bool = False,
) -> torch.nn.Module:
    """Quantise the linear layers of a model in place; return the model.

    model            a module of PyTorch; one that is itself a linear layer gives a new layer
    format           int8, int4, e4m3 or e5m2
    group            32, 64, 128, "channel" (also None), "tensor" or "block", as of `quantise`
    symmetric        False: integers also have zeros
    skip             names or patterns of layers that stay, by their whole name or its last part
    dynamic          True: inputs of layers have 8 bits, too, by a scale for each row
    calibration      the result of `calibrate`: scales are clipped for the least error
    smooth           0 to 1, e.g. 0.5: moves scales of activations to the weights; None does not
    keep             the share of columns, those of the largest inputs, that stay in 16 bits
    keep_originals   True: `revert` gives back the layers as they were, which stay in memory

    Layers of torch.nn and weft.nn are converted; subclasses stay as they are. An error changes
    nothing.

    >>> model = torch.nn.Sequential(torch.nn.Linear(32, 8), torch.nn.ReLU())
    >>> print(weft.quant.convert(model, "int8")[0])
    Linear(in_features=32, out_features=8, bias=True, int8, group=channel)
    """
    chosen = plan(
        format,
        group,
        symmetric=symmetric,
        skip=skip,
        dynamic=dynamic,
        calibration=calibration,
        smooth=smooth,
        keep=keep,
        keep_originals=keep_originals,
    )
    every = linear_layers(check_model(model))
    layers = {name: layer for name, layer in every.items() if not chosen.skips(name)}
    if not layers:
        raise ArgumentError(
            "the model has no linear layer to convert",
            got=f"{type(model).__name__}, {len(every)} skipped",
            allowed="torch.nn.Linear and weft.nn.Linear",
        )
    moved = _migrations(model, layers, set(every) - set(layers), chosen)
    made = {
        name: _converted(name, layer, moved.get(name), chosen) for name, layer in layers.items()
    }
    for norm, factor in {id(m.norm): (m.norm, m.factor) for m in moved.values()}.values():
        if norm is not None:
            fold(norm, factor)
    return replaced(model, {id(layer): made[name] for name, layer in layers.items()})


def revert(model: torch.nn.Module) -> torch.nn.Module:
    """Undo `convert`: give a model linear layers of PyTorch; return the model.

    model   a converted module

    The weights are the dequantised ones, or the originals after `convert(keep_originals=True)`.

    >>> model = weft.quant.convert(torch.nn.Sequential(torch.nn.Linear(32, 8)), "int8")
    >>> print(weft.quant.revert(model)[0])
    Linear(in_features=32, out_features=8, bias=True)
    """
    layers = [m for m in check_model(model).modules() if isinstance(m, Linear)]
    return replaced(model, {id(layer): _reverted(layer) for layer in layers})


def _reverted(layer: Linear) -> torch.nn.Module:
    original = layer.original
    if original is None:
        return layer.dequantised()
    if original.norm is not None:
        with torch.no_grad():
            for now, before in zip(original.norm.parameters(), original.parameters, strict=True):
                now.copy_(before)
    return original.layer


def replaced(model: torch.nn.Module, made: Mapping[int, torch.nn.Module]) -> torch.nn.Module:
    """Put new layers in the places of old ones, which they are found by; return the model."""
    if id(model) in made:
        return made[id(model)]
    for module in list(model.modules()):
        for name, child in list(module._modules.items()):  # also one that is there twice
            if id(child) in made:
                setattr(module, name, made[id(child)])
    return model


# ---- scale migration ---------------------------------------------------------------------------
@dataclass(frozen=True)
class Migration:
    """The factors that a layer's weight is multiplied by, and the norm that is divided by them.

    norm  None: the layer multiplies its input
    """

    factor: torch.Tensor
    norm: torch.nn.Module | None


def _migrations(
    model: torch.nn.Module, layers: Mapping[str, torch.nn.Module], others: set[str], chosen: Plan
) -> dict[str, Migration]:
    """The migration of each layer; layers that read one norm have the same."""
    if chosen.smooth is None or chosen.calibration is None:
        return {}
    norms = shared(layers, chosen.calibration, others)
    readers: dict[str, list[str]] = defaultdict(list)
    for name in layers:
        readers[norms.get(name, f" {name}")].append(name)  # no module's name has a space
    found = {}
    for names in readers.values():
        amax = chosen.calibration.layer(names[0]).amax
        factor = factors(amax, [layers[n].weight for n in names], chosen.smooth)
        norm = norms.get(names[0])
        module = None if norm is None else model.get_submodule(norm)
        found.update(dict.fromkeys(names, Migration(factor, module)))
    return found


# ---- one layer ---------------------------------------------------------------------------------
def _converted(
    name: str, layer: torch.nn.Module, moved: Migration | None, chosen: Plan
) -> torch.nn.Module:
    try:
        return _layer(name, layer, moved, chosen)
    except ArgumentError as error:
        where = ", ".join(filter(None, (f"layer {name}" if name else "the layer", error.where)))
        raise ArgumentError(
            error.what, where=where, got=error.got, allowed=error.allowed,
            next=error.next or f'skip=("{name}",) leaves the layer as it is',
        ) from None  # fmt: skip


def _layer(
    name: str, layer: torch.nn.Module, moved: Migration | None, chosen: Plan
) -> torch.nn.Module:
    weight, multiplier, energy, amax = layer.weight.detach(), None, None, None
    if chosen.calibration is not None:
        seen = chosen.calibration.layer(name)
        energy, amax = seen.energy.to(weight.device), seen.amax.to(weight.device)
    if moved is not None and energy is not None and amax is not None:
        factor = moved.factor
        weight = (weight.double() * factor).float()
        energy, amax = (energy / factor.square()).float(), (amax / factor).float()
        multiplier = None if moved.norm is not None else (1 / factor).float()
    outliers = None
    if chosen.keep and amax is not None:
        outliers = _outliers(weight, amax, chosen.keep, layer.weight.dtype)
        weight = weight.index_fill(1, outliers.columns, 0)
    quantised = quantise(
        weight, chosen.format, chosen.group, symmetric=chosen.symmetric, energy=energy
    )
    kind = DynamicLinear if chosen.dynamic else Linear
    quantised = replace(quantised, dtype=layer.weight.dtype)
    made = kind(quantised, layer.bias, multiplier=multiplier, outliers=outliers)
    if chosen.keep_originals:
        norm = moved.norm if moved is not None else None
        before = () if norm is None else tuple(p.detach().clone() for p in norm.parameters())
        made.original = Original(layer, norm, before)
    return made.train(layer.training)


def _outliers(
    weight: torch.Tensor, amax: torch.Tensor, share: float, dtype: torch.dtype
) -> Outliers:
    """The columns of the largest inputs, in order, in the 16 bits that hold them."""
    count = math.ceil(share * weight.shape[1])
    # Sorted, not `topk`: the first of equal columns on every device.
    columns = amax.argsort(descending=True, stable=True)[:count].sort().values
    kept = weight.index_select(1, columns)
    if dtype not in KEPT:
        fits = bool(kept.abs().amax() <= torch.finfo(torch.float16).max)
        dtype = torch.float16 if fits else torch.bfloat16
    return Outliers(columns, kept.to(dtype))
