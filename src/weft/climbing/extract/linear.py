"""Linear layers: x w' + b."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.climbing.extract.computation import (
    Computation,
    element,
    needed,
    precision,
    refused,
    rows_of,
    smaller,
    tensor,
)

OPERATIONS = ("aten::addmm", "aten::mm", "aten::linear", "weft::linear")

RUNG = """// idea:   one thread per result; adjacent threads write adjacent columns of y
{precision}// launch: linear<<<(cdiv(N, 32), cdiv(M, 8)), (32, 8)>>>

{header}__global__ void linear(const {T}* x, const {T}* w, {bias}{T}* y, int M, int N,
                       int K) {{
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= M || column >= N) return;
    float sum = {first};
    x += size_t(row) * K, w += size_t(column) * K;
    for (int k = 0; k < K; ++k) sum += float(x[k]) * float(w[k]);
    y[size_t(row) * N + column] = {T}(sum);
}}
"""


def describe(operation: str, operands: Mapping[str, Any]) -> Computation:
    """A product of the rows of x with the rows of w, and a bias where the layer has one."""
    x = needed(operands, "mat1", "input", "self")
    weight = tensor(operands, "weight")
    columns = weight.shape[0] if weight else needed(operands, "mat2").shape[-1]
    bias = tensor(operands, "bias") or (tensor(operands, "self") if "mat1" in operands else None)
    if operands.get("activation"):
        raise refused("its product has an activation", str(operands["activation"]), "none")
    if bias is not None and bias.shape != (columns,):
        raise refused("its bias is no vector", str(bias), f"{columns} elements")
    kind = element(x)
    rows, depth = rows_of(x)
    sizes = {"M": rows, "N": columns, "K": depth}
    arrays, names = f"x:{kind.name}[M,K] w:{kind.name}[N,K]", "x, w"
    if bias is not None:
        arrays, names = f"{arrays} b:{kind.name}[N]", "x, w, b"
    return Computation(
        "linear",
        f"Linear layer of {kind.name}: {depth} inputs, {columns} outputs.",
        f"{arrays} -> y:{kind.name}[M,N]",
        f"torch.nn.functional.linear({names})",
        sizes,
        [
            (smaller(sizes, {"M": 64, "N": 64, "K": 64}), ""),
            ({"M": 37, "N": 45, "K": 33}, "ragged in all three directions"),
            ({"M": 1, "N": 65, "K": 7}, "one row"),
        ],
        "2*M*N*K",
        f"{kind.size}*(M*K + N*K + M*N)",
        "compute",
        RUNG.format(
            precision=precision(kind),
            header=kind.header,
            T=kind.cuda,
            bias="" if bias is None else f"const {kind.cuda}* b, ",
            first="0" if bias is None else "float(b[column])",
        ),
        "matmul" if kind.name == "f32" else "matmul_bf16",
    )
