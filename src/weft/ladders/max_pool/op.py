"""Max pooling with windows of 2 x 2, forward and backward."""

import numpy as np

from weft.measure import Case, Op


def reference(x, dy):
    planes, rows, columns = dy.shape
    windows = x.reshape(planes, rows, 2, columns, 2).transpose(0, 1, 3, 2, 4)
    windows = windows.reshape(planes, rows, columns, 4)
    # Of equal elements the first, of NaNs the last, as in PyTorch.
    nans = np.isnan(windows)
    first = np.where(np.isnan(windows), -np.inf, windows).argmax(3)
    which = np.where(nans.any(3), 3 - nans[..., ::-1].argmax(3), first)
    y = np.take_along_axis(windows, which[..., None], 3)[..., 0]
    dx = np.zeros_like(windows)
    np.put_along_axis(dx, which[..., None], dy[..., None], 3)
    dx = dx.reshape(planes, rows, columns, 2, 2).transpose(0, 1, 3, 2, 4)
    return y, dx.reshape(x.shape)


def answer(x, dy):
    planes, rows, columns = dy.shape
    return x.view(planes, rows, 2, columns, 2).amax((2, 4))


op = Op(
    "max_pool",
    "x:f32[planes,2*rows,2*columns] dy:f32[planes,rows,columns]"
    " -> y:f32[planes,rows,columns] dx:f32[planes,2*rows,2*columns]",
    reference=reference,
    cases=[
        Case(planes=3, rows=8, columns=64),
        Case(planes=5, rows=3, columns=7, why="ragged: odd rows of windows"),
        Case(planes=1, rows=1, columns=1),
    ],
    bench=[Case(planes=8192, rows=56, columns=56)],
    flops="4*planes*rows*columns",
    bytes="42*planes*rows*columns",
    peers=[
        "torch.ops.aten.max_pool2d_with_indices_backward(dy[None], x[None], [2, 2], [2, 2], [0, 0],"
        " [1, 1], False, torch.nn.functional.max_pool2d(x[None], 2, return_indices=True)[1])"
    ],
    answer=answer,
    target="limit 0.97",
)
