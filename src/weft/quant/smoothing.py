"""Scale migration from activations to weights: the idea of SmoothQuant (Xiao et al., 2022).

Activations have channels of very different sizes, which share the scale of a row. The division of
channel k by s[k], and the product of column k of the weight with it, leave the result as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from weft.quant.calibration import Calibration


def factors(amax: torch.Tensor, weights: Sequence[torch.Tensor], strength: float) -> torch.Tensor:
    """Compute s = amax ** strength / |W| ** (1 - strength) for layers with the same input.

    amax      largest magnitude of each input channel
    weights   [N, K] of the layers
    strength  1 makes all input channels equal, 0 all columns of the weights

    A channel without inputs or weights has the factor 1.
    """
    columns = torch.stack([w.detach().abs().amax(0) for w in weights]).amax(0).double()
    inputs = amax.to(columns.device, torch.float64)
    found = inputs**strength / columns ** (1 - strength)
    usable = (inputs > 0) & (columns > 0) & found.isfinite()
    return torch.where(usable, found, torch.ones_like(found))


def shared(names: Iterable[str], calibration: Calibration, kept: set[str]) -> Mapping[str, str]:
    """The layers whose factors can be folded into a norm -> that norm.

    names  of the layers that are converted
    kept   layers that are not converted: a norm that one of them reads cannot change
    """
    read_by_others = {calibration[name].norm for name in kept if name in calibration}
    found = {name: calibration.layer(name).norm for name in names}
    return {name: norm for name, norm in found.items() if norm and norm not in read_by_others}


def fold(norm: torch.nn.Module, factor: torch.Tensor) -> None:
    """Divide the result of a norm by the factors, in place."""
    with torch.no_grad():
        for parameter in (norm.weight, getattr(norm, "bias", None)):
            if parameter is not None:
                parameter.copy_(parameter.double() / factor)
