"""Triton's tensor descriptors as kernel parameters: a tensor map, or parts for targets without TMA.

The order is that of Triton's own launcher. `meta` is what the compiler says of a descriptor's box.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weft.device.tensor_map_encoding import MapRequest, encode
from weft.device.tensor_map_layout import TF32, TYPES
from weft.device.tensor_map_limits import check

MAP = "nvTmaDesc"
"""The type of a parameter that is a tensor map."""
_L2_128 = 2

Part = tuple[str, str, Any]
"""The name, the type and the value of a parameter."""


def parts(name: str, value: Any, meta: Mapping[str, Any] | None) -> Iterator[Part]:
    """The parameters of a descriptor."""
    if meta is None:
        yield name, "*i8", value.base
        yield from ((f"{name}.shape", "i64", n) for n in value.shape)
        yield from ((f"{name}.strides", "i64", n) for n in value.strides)
        yield f"{name}.padding", "i1", value.padding == "nan"
        if hasattr(value, "round_f32_to_tf32"):  # since Triton 3.7
            yield f"{name}.round_f32_to_tf32", "i1", value.round_f32_to_tf32
    else:
        yield name, MAP, (encode(_request(value, meta)), value.base)
    yield from ((f"{name}.shape", "i32", n) for n in value.shape)
    yield from ((f"{name}.strides", "i64", n) for n in value.strides)


def _request(value: Any, meta: Mapping[str, Any]) -> MapRequest:
    """The map of a descriptor; sizes are in the order of the shape."""
    kind = TYPES[meta["elem_type"]]
    if getattr(value, "round_f32_to_tf32", False):
        kind = TF32
    shape = list(value.shape)
    if meta.get("fp4_padded"):  # two elements in a byte
        shape[-1] *= 2
    box = tuple(int(n) for n in meta["block_size"])
    steps = tuple(getattr(value, "element_strides", None) or (1,) * len(shape))
    columns: dict[str, Any] = {"box": box[::-1]}
    if meta.get("is_im2col"):
        columns = {
            "lower": tuple(value.pixel_box_lower_corner)[::-1],
            "upper": tuple(value.pixel_box_upper_corner)[::-1],
            "pixels": box[0],
            "channels": box[1],
        }
    strides = tuple(int(s) * meta["elem_size"] for s in value.strides)
    request = MapRequest(
        kind, int(value.base.data_ptr()), tuple(int(n) for n in shape)[::-1], strides[:-1][::-1],
        steps[::-1], swizzle=meta["swizzle"], l2=_L2_128, nan=value.padding == "nan", **columns,
    )  # fmt: skip
    check(request)
    return request
