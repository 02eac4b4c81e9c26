"""ElementwiseKernel: an expression of the elements of arrays, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.errors import ArgumentError
from weft.frontends.cupy.arrays import wrapped
from weft.frontends.cupy.parameters import HEAD, Declared, c_name, read, types
from weft.kernels import cdiv, cuda

_BLOCK = 128
_SOURCE = """{head}{preamble}
struct _Indexer {{
    long long n;
    __device__ long long size() const {{ return n; }}
}};
{using}
namespace weft_cupy {{  // the name may be that of a mathematical function
__global__ void {name}({parameters}) {{
    [[maybe_unused]] _Indexer _ind{{_n}};
    {before};
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < _n;
         i += (long long)blockDim.x * gridDim.x) {{
        {loads}
        {{ {operation}; }}
        {stores}
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
        self, in_params: str, out_params: str, operation: str, name: str = "kernel", *,
        preamble: str = "", loop_prep: str = "", after_loop: str = "", options: Sequence[str] = (),
        **_: Any,
    ) -> None:  # fmt: skip
        self._inputs, self._outputs = read(in_params), read(out_params)
        self._operation, self.name, self._preamble = operation, name, preamble
        self._before, self._after, self._options = loop_prep, after_loop, list(options)
        self._kernels: dict[tuple[object, ...], Any] = {}

    def __call__(
        self, *args: Any, size: int | None = None, block_size: int = _BLOCK, **_: Any
    ) -> Any:
        inputs, outputs = list(args[: len(self._inputs)]), list(args[len(self._inputs) :])
        if len(inputs) < len(self._inputs) or len(outputs) not in (0, len(self._outputs)):
            raise ArgumentError(
                f"{self.name} was given a wrong number of arguments",
                got=str(len(args)),
                allowed=f"{len(self._inputs)}, or {len(self._inputs) + len(self._outputs)}",
            )
        outputs = outputs or [None] * len(self._outputs)
        known = types([*self._inputs, *self._outputs], [*inputs, *outputs])
        shape = self._shape([*inputs, *outputs], size)
        results = [
            np.zeros(shape, known.get(d.type, d.type)) if out is None else out
            for d, out in zip(self._outputs, outputs, strict=True)
        ]
        dense = [self._dense(d, v, shape, known) for d, v in zip(self._inputs, inputs, strict=True)]
        places = [np.ascontiguousarray(out) for out in results]
        count = int(np.prod(shape))
        if count:
            kernel = self._kernel(known, [isinstance(v, np.ndarray) for v in dense])
            kernel[cdiv(count, block_size), block_size](*dense, *places, count)
        for out, place in zip(results, places, strict=True):
            if place is not out:
                out[...] = place  # a strided result
        made = [wrapped(out) for out in results]
        return made[0] if len(made) == 1 else tuple(made)

    def _shape(self, values: Sequence[Any], size: int | None) -> tuple[int, ...]:
        if size is not None:
            return (size,)
        declared = [*self._inputs, *self._outputs]
        arrays = [
            v
            for d, v in zip(declared, values, strict=True)
            if isinstance(v, np.ndarray) and not d.raw
        ]
        if not arrays:
            raise ArgumentError(
                f"{self.name} does not know how many elements to compute", next="pass size="
            )
        return np.broadcast_shapes(*(a.shape for a in arrays))

    def _dense(self, declared: Declared, value: Any, shape: tuple[int, ...], known: Any) -> Any:
        dtype = known.get(declared.type, declared.type)
        if not isinstance(value, np.ndarray):
            return np.dtype(dtype).type(value)
        whole = value if declared.raw else np.broadcast_to(value, shape)
        return np.ascontiguousarray(whole, dtype)

    def _kernel(self, known: dict[str, np.dtype[Any]], arrays: Sequence[bool]) -> Any:
        key = (*sorted((t, d.name) for t, d in known.items()), *arrays)
        if key not in self._kernels:
            module = cuda(self._source(known, arrays), options=self._options)
            self._kernels[key] = module.kernel(f"weft_cupy::{self.name}")
        return self._kernels[key]

    def _source(self, known: dict[str, np.dtype[Any]], arrays: Sequence[bool]) -> str:
        parameters, loads, stores = [], [], []
        for declared, array in zip(self._inputs, arrays, strict=True):
            ctype = c_name(known.get(declared.type, declared.type))
            if declared.raw or not array:
                star = "const {}* {}" if array else "{} {}"
                parameters.append(star.format(ctype, declared.name))
            else:
                parameters.append(f"const {ctype}* _{declared.name}")
                loads.append(f"const {ctype} {declared.name} = _{declared.name}[i];")
        for declared in self._outputs:
            ctype = c_name(known.get(declared.type, declared.type))
            parameters.append(f"{ctype}* {'' if declared.raw else '_'}{declared.name}")
            if not declared.raw:
                loads.append(f"{ctype} {declared.name} = _{declared.name}[i];")
                stores.append(f"_{declared.name}[i] = {declared.name};")
        return _SOURCE.format(
            head=HEAD, preamble=self._preamble, name=self.name, operation=self._operation,
            using="".join(f"typedef {c_name(d)} {t};\n" for t, d in known.items()),
            parameters=", ".join([*parameters, "long long _n"]), loads="\n        ".join(loads),
            stores=" ".join(stores), before=self._before, after=self._after,
        )  # fmt: skip
