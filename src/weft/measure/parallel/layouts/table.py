"""All layouts by their names."""

from __future__ import annotations

from typing import Any

from weft.measure.parallel.layouts import data, fsdp, pipeline, ring, tensor, ulysses
from weft.measure.parallel.layouts.layout import Layout

LAYOUTS: dict[str, Layout[Any]] = {
    name: layout
    for module in (ring, ulysses, tensor, data, fsdp, pipeline)
    for name, layout in module.LAYOUTS.items()
}
