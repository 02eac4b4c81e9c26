"""ReductionKernel: maps elements, reduces them along axes, and maps the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.errors import ArgumentError
from weft.frontends.cupy.arrays import wrapped
from weft.frontends.cupy.parameters import HEAD, c_name, read, types
from weft.kernels import cuda

_BLOCK = 128
_SOURCE = """{head}{preamble}
{using}
typedef {reduced} _type_reduce;
__device__ _type_reduce _reduced(_type_reduce a, _type_reduce b) {{ return {reduce}; }}
namespace weft_cupy {{  // the name may be that of a mathematical function
__global__ void {name}({parameters}) {{
    __shared__ _type_reduce _all[{block}];
    _type_reduce _sum = _type_reduce({identity});
    for (long long _j = threadIdx.x; _j < _inner; _j += {block}) {{
        long long i = blockIdx.x * _inner + _j;
        {loads}
        _sum = _reduced(_sum, {map});
    }}
    _all[threadIdx.x] = _sum;
    for (int _k = {block} / 2; _k > 0; _k /= 2) {{
        __syncthreads();
        if (threadIdx.x < _k)
            _all[threadIdx.x] = _reduced(_all[threadIdx.x], _all[threadIdx.x + _k]);
    }}
    if (threadIdx.x == 0) {{
        _type_reduce a = _all[0];
        {out} &{result} = _{result}[blockIdx.x];
        {post};
    }}
}}
}}
"""


class ReductionKernel:
    """A kernel that reduces an expression of elements.

    >>> import weft.cupy as cp
    >>> norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    >>> print(norm(cp.array([3.0, 4.0])))
    5.0
    """

    def __init__(
        self, in_params: str, out_params: str, map_expr: str, reduce_expr: str,
        post_map_expr: str, identity: str, name: str = "reduce", *, reduce_type: str | None = None,
        preamble: str = "", options: Sequence[str] = (), **_: Any,
    ) -> None:  # fmt: skip
        self._inputs, self._outputs = read(in_params), read(out_params)
        if len(self._outputs) != 1 or any(d.raw for d in (*self._inputs, *self._outputs)):
            raise ArgumentError(
                "a reduction has one result, and no raw parameters",
                got=f"{in_params}; {out_params}",
            )
        self._map, self._reduce, self._post = map_expr, reduce_expr, post_map_expr
        self._identity, self.name, self._type = identity, name, reduce_type
        self._preamble, self._options = preamble, list(options)
        self._kernels: dict[tuple[object, ...], Any] = {}

    def __call__(
        self, *args: Any, axis: Any = None, keepdims: bool = False, out: Any = None
    ) -> Any:
        inputs = list(args[: len(self._inputs)])
        known = types([*self._inputs, *self._outputs], [*inputs, out])
        shape = np.broadcast_shapes(*(np.shape(v) for v in inputs))
        given = range(len(shape)) if axis is None else np.atleast_1d(axis)
        axes = tuple(int(a) % len(shape) for a in given)
        kept = [a for a in range(len(shape)) if a not in axes]
        dense = [
            np.ascontiguousarray(
                np.broadcast_to(v, shape).transpose(*kept, *axes), known.get(d.type, d.type)
            )
            for d, v in zip(self._inputs, inputs, strict=True)
        ]
        inner = int(np.prod([shape[a] for a in axes]))
        result = np.zeros(
            [shape[a] for a in kept], known.get(self._outputs[0].type, self._outputs[0].type)
        )
        if result.size:
            self._kernel(known)[result.size, _BLOCK](*dense, result, inner)
        if keepdims:
            result = result.reshape([1 if a in axes else n for a, n in enumerate(shape)])
        if out is not None:
            out[...] = result
            return out
        return wrapped(result)

    def _kernel(self, known: dict[str, np.dtype[Any]]) -> Any:
        key = tuple(sorted((t, d.name) for t, d in known.items()))
        if key not in self._kernels:
            module = cuda(self._source(known), options=self._options)
            self._kernels[key] = module.kernel(f"weft_cupy::{self.name}")
        return self._kernels[key]

    def _source(self, known: dict[str, np.dtype[Any]]) -> str:
        ctypes = {d: c_name(known.get(d.type, d.type)) for d in (*self._inputs, *self._outputs)}
        result = self._outputs[0]
        loads = [f"const {ctypes[d]} {d.name} = _{d.name}[i];" for d in self._inputs]
        parameters = [f"const {ctypes[d]}* _{d.name}" for d in self._inputs]
        parameters += [f"{ctypes[result]}* _{result.name}", "long long _inner"]
        reduced = self._type or ctypes[result]
        return _SOURCE.format(
            head=HEAD, preamble=self._preamble, name=self.name, block=_BLOCK, map=self._map,
            using="".join(f"typedef {c_name(d)} {t};\n" for t, d in known.items()),
            reduce=self._reduce, identity=self._identity, post=self._post, reduced=reduced,
            parameters=", ".join(parameters), loads=" ".join(loads), out=ctypes[result],
            result=result.name,
        )  # fmt: skip
