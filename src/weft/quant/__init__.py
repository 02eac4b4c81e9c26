"""Quantisation of linear layers: weights in 8 and 4 bits, calibration, layers, reports.

[Quantisation](quantisation.md) explains the formats and techniques, with their errors.
"""

# The modules:
#   formats.py      the formats: int8, int4, e4m3, e5m2
#   packing.py      two 4-bit numbers in a byte
#   granularity.py  weights as groups that share a scale
#   quantised.py    `Quantised`: a weight in 8 or 4 bits
#   scales.py       scales of groups, and the search for clipped ones
#   rounding.py     `quantise`: a weight to a `Quantised`
#   batches.py      runs of a model with hooks on its linear layers
#   calibration.py  `calibrate`: statistics of the inputs of layers
#   sources.py      the norm that makes the input of a layer
#   smoothing.py    scale migration from activations to weights
#   products.py     the products of layers with quantised weights
#   layers.py       `Linear` and `DynamicLinear`
#   plan.py         the options of a conversion, checked
#   conversion.py   `convert` and `revert`
#   comparison.py   `report`: errors of formats, layer by layer
#   checkpoint.py   safetensors files: headers, and tensors that are read when they are used
#   layouts/        weights in the layouts of other packages
#   torchao.py      `from_torchao`: a model that torchao quantised

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.ops.core.bind import deferred

if TYPE_CHECKING:
    from weft.quant.calibration import Activations, Calibration, calibrate
    from weft.quant.comparison import Report, report
    from weft.quant.conversion import convert, revert
    from weft.quant.layers import DynamicLinear, Linear
    from weft.quant.quantised import Quantised
    from weft.quant.rounding import quantise
    from weft.quant.torchao import from_torchao

__all__ = [
    "Activations",
    "Calibration",
    "DynamicLinear",
    "Linear",
    "Quantised",
    "Report",
    "calibrate",
    "convert",
    "from_torchao",
    "quantise",
    "report",
    "revert",
]

_HOME = {
    "Activations": "calibration",
    "Calibration": "calibration",
    "DynamicLinear": "layers",
    "Linear": "layers",
    "Quantised": "quantised",
    "Report": "comparison",
    "calibrate": "calibration",
    "convert": "conversion",
    "from_torchao": "torchao",
    "quantise": "rounding",
    "report": "comparison",
    "revert": "conversion",
}
__getattr__, __dir__ = deferred.attributes(__name__, _HOME, __all__)
