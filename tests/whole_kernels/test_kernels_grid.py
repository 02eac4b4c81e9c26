"""Transposes, stencils, sparse matrices, graphs and n-body, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from everyday import close, load, normal, random
from weft import cdiv

PLANES = [(1, 1), (32, 32), (33, 70), (100, 17)]
TRANSPOSES = {
    "transpose_naive": np.float32,
    "transpose_swizzled": np.float32,
    "transpose_tiled<float, 0>": np.float32,
    "transpose_tiled<float, 1>": np.float32,
    "transpose_tiled<double, 1>": np.float64,
    "transpose_tiled<unsigned char, 4>": np.uint8,
}


@pytest.mark.parametrize(("rows", "columns"), PLANES)
@pytest.mark.parametrize("kernel", TRANSPOSES)
def test_transpose(kernel: str, rows: int, columns: int) -> None:
    x = random(rows).integers(0, 256, (rows, columns)).astype(TRANSPOSES[kernel])
    y = np.zeros((columns, rows), x.dtype)
    tall = 8 if kernel == "transpose_naive" else 32
    grid = cdiv(columns, 32), cdiv(rows, tall)
    load("grid").kernel(kernel)[grid, (32, 8)](x, y, rows, columns)
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize(("height", "width"), PLANES)
@pytest.mark.parametrize("taps", [3, 7])
def test_convolution(taps: int, height: int, width: int) -> None:
    x, weights = normal((height, width), height), normal((taps, taps), taps)
    load("grid").variable("filter", np.float32)[: taps * taps] = weights.ravel()
    y, grid = np.full_like(x, np.nan), (cdiv(width, 16), cdiv(height, 16))
    load("grid").kernel(f"convolve_{taps}")[grid, (16, 16)](x, y, height, width)
    padded = np.pad(x.astype(np.float64), taps // 2)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (taps, taps))
    close(y, (windows * weights).sum((2, 3)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block", [(8, 8, 4), (17, 3, 2), (32, 1, 1)])
def test_jacobi(block: tuple[int, int, int]) -> None:
    nz, ny, nx = 7, 10, 21
    a, f = random(1).random((nz, ny, nx)), random(2).random((nz, ny, nx))
    b, want = np.zeros_like(a), a.copy()
    grid = cdiv(nx, block[0]), cdiv(ny, block[1]), cdiv(nz, block[2])
    for _ in range(4):
        load("grid").jacobi[grid, block](a, b, f, nx, ny, nz)
        a, b = b, a
        old, inside = want, (slice(1, -1),) * 3
        want = old.copy()
        want[inside] = (
            old[1:-1, 1:-1, :-2] + old[1:-1, 1:-1, 2:] + old[1:-1, :-2, 1:-1]
            + old[1:-1, 2:, 1:-1] + old[:-2, 1:-1, 1:-1] + old[2:, 1:-1, 1:-1] - f[inside]
        ) / 6  # fmt: skip
    np.testing.assert_array_equal(a, want)  # the same operations in the same order


def _sparse(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CSR with empty, short and long rows."""
    rng = random(rows, columns)
    lengths = np.minimum(rng.geometric(0.1, rows) - 1, columns)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    picks = [rng.choice(columns, n, replace=False) for n in lengths]
    return starts, np.concatenate(picks).astype(np.int32), normal(int(starts[-1]), rows)


@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (200, 300), (333, 64)])
@pytest.mark.parametrize("kernel", ["spmv_thread", "spmv_warp"])
def test_spmv(kernel: str, rows: int, columns: int) -> None:
    starts, picks, values = _sparse(rows, columns)
    x, y = normal(columns, 1), np.full(rows, np.nan, np.float32)
    threads = rows * (32 if kernel == "spmv_warp" else 1)
    load("grid").kernel(kernel)[cdiv(threads, 128), 128](starts, picks, values, x, y, rows)
    dense = np.zeros((rows, columns))
    dense[np.repeat(np.arange(rows), np.diff(starts)), picks] = values
    close(y, dense @ x, rtol=1e-4, atol=1e-5)


def _distances(starts: np.ndarray, edges: np.ndarray, source: int) -> np.ndarray:
    distance = np.full(len(starts) - 1, -1, np.int32)
    distance[source], queue = 0, [source]
    for v in queue:
        for u in edges[starts[v] : starts[v + 1]]:
            if distance[u] < 0:
                distance[u] = distance[v] + 1
                queue.append(int(u))
    return distance


@pytest.mark.parametrize("vertices", [1, 50, 600])
def test_breadth_first_search(vertices: int) -> None:
    starts, edges, _ = _sparse(vertices, vertices)
    distance = np.full(vertices, -1, np.int32)
    frontier, level, distance[0] = np.zeros(1, np.int32), 0, 0
    while len(frontier):
        level += 1
        found, count = np.empty(vertices, np.int32), np.zeros(1, np.int32)
        load("grid").bfs_level[cdiv(len(frontier), 64), 64](
            starts, edges, distance, frontier, len(frontier), found, count, level
        )
        frontier = found[: count[0]].copy()
    np.testing.assert_array_equal(distance, _distances(starts, edges, 0))


@pytest.mark.parametrize(("n", "block"), [(1, 32), (100, 64), (257, 100)])
def test_n_body(n: int, block: int) -> None:
    bodies = normal((n, 4), n)
    forces = np.full((n, 3), np.nan, np.float32)
    load("grid").n_body[cdiv(n, block), block, 16 * block](bodies, forces, n, 0.01)
    place, mass = bodies[:, :3].astype(np.float64), bodies[:, 3]
    d = place[None] - place[:, None]
    inverse = ((d**2).sum(2) + 0.01) ** -1.5
    close(forces, (d * (inverse * mass)[..., None]).sum(1), rtol=1e-4, atol=2e-4)
