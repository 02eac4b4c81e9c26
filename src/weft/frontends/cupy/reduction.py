"""ReductionKernel: maps elements, reduces them along axes, and maps the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.errors import ArgumentError
from weft.frontends.cupy.arrays import ndarray
from weft.frontends.cupy.compiled import generated
from weft.frontends.cupy.host_objects import to_device
from weft.frontends.cupy.parameters import (
    Types,
    c_name,
    checked_name,
    lengths,
    read,
    types,
    with_types,
)

_BLOCK = 128
_SOURCE = """{preamble}
typedef {reduced} _type_reduce;
__device__ _type_reduce _reduced(_type_reduce a, _type_reduce b) {{ return {reduce}; }}
namespace weft_cupy {{  // the name may be that of a mathematical function
__global__ void {name}({parameters}) {{
    __shared__ __align__(16) char _bytes[{block} * sizeof(_type_reduce)];
    _type_reduce *_all = reinterpret_cast<_type_reduce *>(_bytes);
    {arrays}
    long long _J = threadIdx.x;
    auto _mapped = [&]() -> _type_reduce {{
        [[maybe_unused]] long long i = blockIdx.x * _inner + _J;
        {loads}
        return _type_reduce({map});
    }};
    const int _count = _inner < {block} ? int(_inner) : {block};
    if (threadIdx.x < _count || threadIdx.x == 0) {{
        {start}
        for (; _J < _inner; _J += {block}) _sum = _reduced(_sum, _mapped());
        _all[threadIdx.x] = _sum;
    }}
    for (int _k = {block} / 2; _k > 0; _k /= 2) {{
        __syncthreads();
        if (threadIdx.x < _k && threadIdx.x + _k < _count)
            _all[threadIdx.x] = _reduced(_all[threadIdx.x], _all[threadIdx.x + _k]);
    }}
    if (threadIdx.x == 0) {{
        _type_reduce a = _all[0];
        [[maybe_unused]] long long i = blockIdx.x;
        {outputs}
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
        post_map_expr: str, identity: Any, name: str = "reduce_kernel",
        reduce_type: str | None = None, reduce_dims: bool = True, preamble: str = "",
        options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._inputs, self._outputs = read(in_params), read(out_params)
        if not self._inputs or not self._outputs or any(d.raw for d in self._outputs):
            raise ArgumentError(
                "a cupy reduction has parameters, and results that are not raw",
                got=f"{in_params}; {out_params}",
            )
        self._map, self._reduce, self._post = map_expr, reduce_expr, post_map_expr
        self.identity, self.name, self._type = identity, checked_name(name), reduce_type
        self._preamble, self._options = preamble, list(options)
        self._kernels: dict[tuple[object, ...], Any] = {}

    def __call__(
        self, *args: Any, out: Any = None, axis: Any = None, keepdims: bool = False,
        stream: object = None,
    ) -> Any:  # fmt: skip
        if len(args) == len(self._inputs) + len(self._outputs):
            args, out = args[:-1], args[-1]
        if len(args) != len(self._inputs):
            raise TypeError(
                f"Wrong number of arguments for cupy kernel {self.name!r}: got {len(args)}, "
                f"expected {len(self._inputs)}"
            )
        declared = [*self._inputs, *self._outputs]
        known = types(declared, [*args, out, *[None] * (len(self._outputs) - 1)])
        shape = np.broadcast_shapes(*(
            v.shape for d, v in zip(self._inputs, args, strict=True)
            if isinstance(v, ndarray) and not d.raw
        ))  # fmt: skip
        axes = _axes(axis, len(shape))
        rest = [a for a in range(len(shape)) if a not in axes]
        inner = int(np.prod([shape[a] for a in axes], dtype=np.int64))
        if not inner and self.identity in (None, ""):
            raise ValueError(f"zero-size array to cupy reduction {self.name} without an identity")
        results = [np.empty([shape[a] for a in rest], d.dtype(known)) for d in self._outputs]
        if results[0].size:
            self._run(known, args, shape, (*rest, *axes), results, inner)
        return self._shaped(results, axes, shape, keepdims, out)

    def _run(
        self, known: Types, args: Sequence[Any], shape: Sequence[int], order: Sequence[int],
        results: Sequence[np.ndarray[Any, Any]], inner: int,
    ) -> None:  # fmt: skip
        values, shapes, ndims = [], [], []
        for d, v in zip(self._inputs, args, strict=True):
            host = v._host if isinstance(v, ndarray) else np.asarray(v)
            if not d.raw:
                host = np.broadcast_to(host, shape).transpose(order)
            values.append(np.ascontiguousarray(host, d.dtype(known)))
            ndims.append(host.ndim)
            if d.raw:
                shapes.append(lengths(host.shape))
        self._kernel(known, ndims)[results[0].size, _BLOCK](*values, *results, *shapes, inner)

    def _shaped(
        self, results: Sequence[np.ndarray[Any, Any]], axes: Sequence[int], shape: Sequence[int],
        keepdims: bool, out: Any,
    ) -> Any:  # fmt: skip
        kept = [1 if a in axes else n for a, n in enumerate(shape)]
        made = [r.reshape(kept) if keepdims else r for r in results]
        if out is not None:
            if out.shape != made[0].shape:
                raise ValueError(f"Output array has shape {out.shape}, expected {made[0].shape}")
            out._host[...] = made[0]
            return out
        return to_device(made[0] if len(made) == 1 else tuple(made))

    def _kernel(self, known: Types, ndims: Sequence[int]) -> Any:
        raw = tuple(n for d, n in zip(self._inputs, ndims, strict=True) if d.raw)
        key = (*sorted((t, d.name) for t, d in known.items()), raw)
        if key not in self._kernels:
            module = generated(self._source(known, ndims), self._options)
            self._kernels[key] = module.kernel(f"weft_cupy::{self.name}")
        return self._kernels[key]

    def _source(self, known: Types, ndims: Sequence[int]) -> str:
        ctypes = {d: c_name(d.dtype(known)) for d in (*self._inputs, *self._outputs)}
        whole = [d for d in self._inputs if not d.raw]
        raw = [(d, n) for d, n in zip(self._inputs, ndims, strict=True) if d.raw]
        parameters = [f"const {ctypes[d]}* _{d.name}" for d in self._inputs]
        parameters += [f"{ctypes[d]}* _{d.name}" for d in self._outputs]
        parameters += [f"const long long* _shape_{d.name}" for d, _ in raw]
        reduced = self._type or ctypes[self._outputs[0]]
        none = self.identity in (None, "")
        start = "_mapped(); _J += {block};" if none else f"_type_reduce({self.identity});"
        source = _SOURCE.format(
            preamble=self._preamble, name=self.name, block=_BLOCK, map=self._map,
            reduce=self._reduce, post=self._post, reduced=reduced,
            parameters=", ".join([*parameters, "long long _inner"]),
            start=f"_type_reduce _sum = {start.format(block=_BLOCK) if none else start}",
            arrays=" ".join(
                f"const CArray<const {ctypes[d]}, {n}> {d.name}{{_{d.name}, _shape_{d.name}}};"
                for d, n in raw
            ),
            loads=" ".join(f"const {ctypes[d]} {d.name} = _{d.name}[i];" for d in whole),
            outputs=" ".join(f"{ctypes[d]} &{d.name} = _{d.name}[i];" for d in self._outputs),
        )  # fmt: skip
        return with_types(source, known)


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the reduced axes, each once and not negative."""
    given = range(ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    for a in given:
        if not -ndim <= a < ndim:
            raise np.exceptions.AxisError(a, ndim)
    return tuple(int(a) % ndim for a in given)
