"""ElementwiseKernel: an expression of the elements of arrays, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.frontends.cupy.arrays import ndarray
from weft.frontends.cupy.compiled import generated
from weft.frontends.cupy.host_objects import to_device
from weft.frontends.cupy.parameters import (
    Declared,
    Types,
    c_name,
    checked_name,
    lengths,
    read,
    types,
    with_types,
)
from weft.kernels import cdiv

_BLOCK = 128
_SOURCE = """{preamble}
namespace weft_cupy {{  // the name may be that of a mathematical function
__global__ void {name}({parameters}) {{
    [[maybe_unused]] CIndexer<{axes}> _ind(_shape);
    {arrays}
    {before};
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < _ind.size();
         i += (long long)blockDim.x * gridDim.x) {{
        {loads}
        {{
            {operation};
        }}
    }}
    {after};
}}
}}
"""


class ElementwiseKernel:
    """A kernel that computes each element of its results from the same element of its arguments.

    >>> import weft.cupy as cp
    >>> squared = cp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared")
    >>> print(squared(cp.arange(4.0), 1.0))
    [1. 0. 1. 4.]
    """

    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str = "kernel",
        reduce_dims: bool = True, preamble: str = "", no_return: bool = False,
        return_tuple: bool = False, *, loop_prep: str = "", after_loop: str = "",
        options: Sequence[str] = (), **_: Any,
    ) -> None:  # fmt: skip
        self.in_params, self.out_params = read(in_params), read(out_params)
        self.operation, self.preamble = operation, preamble
        self.name = checked_name(name)
        self.no_return, self.return_tuple = no_return, return_tuple
        self._before, self._after, self._options = loop_prep, after_loop, list(options)
        self._kernels: dict[tuple[object, ...], Any] = {}

    @property
    def params(self) -> tuple[Declared, ...]:
        return (*self.in_params, *self.out_params)

    def __call__(
        self, *args: Any, size: int | None = None, block_size: int = _BLOCK, stream: object = None
    ) -> Any:
        if block_size <= 0:
            raise ValueError(f"block_size must be greater than zero, got {block_size}")
        inputs, outputs = list(args[: len(self.in_params)]), list(args[len(self.in_params) :])
        if len(inputs) < len(self.in_params) or len(outputs) not in (0, len(self.out_params)):
            raise TypeError(
                f"Wrong number of arguments for cupy kernel {self.name!r}: got {len(args)}, "
                f"expected {len(self.in_params)}, or {len(self.params)} with its results"
            )
        outputs = outputs or [None] * len(self.out_params)
        known = types(self.params, [*inputs, *outputs])
        shape = self._shape([*inputs, *outputs], size)
        results = [
            _result(d, v, shape, known) for d, v in zip(self.out_params, outputs, strict=True)
        ]
        self._run(known, shape, inputs, [r._host for r in results], block_size)
        if self.no_return:
            return None
        single = len(results) == 1 and not self.return_tuple
        return results[0] if single else tuple(results)

    def _run(
        self, known: Types, shape: tuple[int, ...], inputs: Sequence[Any],
        results: Sequence[np.ndarray[Any, Any]], block: int,
    ) -> None:  # fmt: skip
        dense = [_dense(d, v, shape, known) for d, v in zip(self.in_params, inputs, strict=True)]
        places = [np.ascontiguousarray(out).reshape(out.shape) for out in results]
        values, total = [*dense, *places], lengths(shape)
        if total[-1]:
            ndims = tuple(v.ndim if isinstance(v, np.ndarray) else None for v in values)
            kernel = self._kernel(known, ndims, len(shape))
            raw = [lengths(v.shape) for d, v in zip(self.params, values, strict=True)
                   if d.raw and isinstance(v, np.ndarray)]  # fmt: skip
            kernel[cdiv(int(total[-1]), block), block](*values, *raw, total)
        for out, place in zip(results, places, strict=True):
            if not np.may_share_memory(out, place):
                out[...] = place  # a strided result

    def _shape(self, values: Sequence[Any], size: int | None) -> tuple[int, ...]:
        whole = [v.shape for d, v in zip(self.params, values, strict=True)
                 if isinstance(v, ndarray) and not d.raw]  # fmt: skip
        if size is not None:
            if whole:
                raise ValueError(
                    "Specified 'size' can be used only if all of the ndarray are 'raw'."
                )
            return (size,)
        if whole:
            return np.broadcast_shapes(*whole)
        if any(isinstance(v, ndarray) for v in values):
            raise ValueError(
                f"Loop size is undecided. cupy kernel {self.name!r} has only raw arrays: pass size="
            )
        return ()

    def _kernel(self, known: Types, ndims: Sequence[int | None], axes: int) -> Any:
        raw = tuple(n if d.raw else n is None for d, n in zip(self.params, ndims, strict=True))
        key = (*sorted((t, d.name) for t, d in known.items()), raw, axes)
        if key not in self._kernels:
            module = generated(self._source(known, ndims, axes), self._options)
            self._kernels[key] = module.kernel(f"weft_cupy::{self.name}")
        return self._kernels[key]

    def _source(self, known: Types, ndims: Sequence[int | None], axes: int) -> str:
        parameters, shapes, arrays, loads = [], [], [], []
        for at, (d, ndim) in enumerate(zip(self.params, ndims, strict=True)):
            ctype, output = c_name(d.dtype(known)), at >= len(self.in_params)
            const = "" if output else "const "
            if ndim is None:
                parameters.append(f"const {ctype} {d.name}")
                continue
            parameters.append(f"{const}{ctype}* _{d.name}")
            if d.raw:
                shapes.append(f"const long long* _shape_{d.name}")
                kind = f"CArray<{const}{ctype}, {ndim}>"
                arrays.append(f"const {kind} {d.name}{{_{d.name}, _shape_{d.name}}};")
                continue
            loads.append(f"{const}{ctype} {'&' if output else ''}{d.name} = _{d.name}[i];")
        if "_ind.get" in self.operation:
            loads.append("_ind.set(i);")
        source = _SOURCE.format(
            preamble=self.preamble, name=self.name, operation=self.operation,
            parameters=", ".join([*parameters, *shapes, "const long long* _shape"]),
            arrays="\n    ".join(arrays), loads="\n        ".join(loads), axes=axes,
            before=self._before, after=self._after,
        )  # fmt: skip
        return with_types(source, known)


def _result(declared: Declared, out: Any, shape: tuple[int, ...], known: Types) -> ndarray:
    """Return the array of a result, new where none is given."""
    if out is None:
        made: ndarray = to_device(np.empty(shape, declared.dtype(known)))
        return made
    if not isinstance(out, ndarray):
        raise TypeError(f"Output arguments type must be cupy.ndarray, got {type(out)}")
    if not declared.raw and out.shape != shape:
        raise ValueError(f"Out shape is mismatched: {out.shape} is not {shape}")
    return out


def _dense(declared: Declared, value: Any, shape: tuple[int, ...], known: Types) -> Any:
    """Return an argument as the kernel takes it: a scalar, or a dense array."""
    dtype = declared.dtype(known)
    if not isinstance(value, ndarray):
        if isinstance(value, list | tuple | str | type(None)):
            raise TypeError(f"Unsupported type {type(value)}")
        scalar = np.asarray(value).astype(dtype)[()]
        return scalar.tobytes() if dtype.kind == "c" else scalar  # a structure, by value
    whole = value._host if declared.raw else np.broadcast_to(value._host, shape)
    return np.ascontiguousarray(whole).reshape(whole.shape)
