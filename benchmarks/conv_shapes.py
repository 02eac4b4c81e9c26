"""Times convolutions of everyday networks against cuDNN, as PyTorch calls it, on a GPU.

    PYTHONPATH=src python benchmarks/conv_shapes.py                     # forward and backward
    PYTHONPATH=src python benchmarks/conv_shapes.py --record FILE.jsonl # also appended to a file
    PYTHONPATH=src python benchmarks/conv_shapes.py --precisions bf16 --last --passes forward

Both compute at the same precision: fp32 (no TF32), tf32, bf16. cuDNN uses the fastest of the first
LIMIT algorithms that its heuristics suggest (torch.backends.cudnn.benchmark). Each pass is timed
alone, by replays of a CUDA graph, and as called, in a row of eager calls. Inputs stay in the L2
where they fit, for both. Depthwise shapes are timed in fp32 and bf16. --last times channels_last
tensors. A ratio is cuDNN's time over weft's.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from weft.measure.bench.clocks import driver_version
from weft.ops.core import library
from weft.ops.sweep.time import alone, as_called


class Shape(NamedTuple):
    """x [n, c, size, size] with k filters of `taps` x `taps`, each of c / groups channels."""

    net: str
    n: int
    c: int
    size: int
    k: int
    taps: int
    stride: int = 1
    groups: int = 1

    @property
    def pad(self) -> int:
        return self.taps // 2

    def __str__(self) -> str:
        stride = f" /{self.stride}" if self.stride > 1 else ""
        taps = f"{self.taps}x{self.taps}{stride}{' depthwise' if self.groups > 1 else ''}"
        return f"{self.net} {self.n} x {self.c}->{self.k} {self.size}² {taps}"


def _resnet(*rows: tuple[int, ...]) -> list[Shape]:
    return [Shape("ResNet-50", 32, *row) for row in rows]


SHAPES = (
    *_resnet(
        (3, 224, 64, 7, 2), (64, 56, 64, 1), (64, 56, 64, 3), (64, 56, 256, 1), (256, 56, 64, 1),
        (256, 56, 128, 1), (128, 56, 128, 3, 2), (256, 56, 512, 1, 2), (128, 28, 128, 3),
        (128, 28, 512, 1), (512, 28, 128, 1), (256, 28, 256, 3, 2), (256, 14, 256, 3),
        (256, 14, 1024, 1), (1024, 14, 256, 1), (512, 14, 512, 3, 2), (512, 7, 512, 3),
        (512, 7, 2048, 1), (2048, 7, 512, 1),
    ),
    Shape("U-Net", 4, 3, 256, 64, 3),
    Shape("U-Net", 4, 64, 256, 64, 3),
    Shape("U-Net", 4, 128, 256, 64, 3),
    Shape("U-Net", 4, 128, 128, 128, 3),
    Shape("U-Net", 4, 256, 64, 256, 3),
    Shape("U-Net", 4, 512, 32, 512, 3),
    Shape("MNIST", 1, 1, 28, 32, 3),
    Shape("MNIST", 1, 32, 14, 64, 3),
    Shape("MNIST", 64, 1, 28, 6, 5),
    Shape("MNIST", 256, 1, 28, 32, 3),
    Shape("MNIST", 256, 32, 14, 64, 3),
)  # fmt: skip
DEPTHWISE = tuple(
    Shape(net, 32, c, size, c, taps, stride, c)
    for net, c, size, taps, stride in (
        ("MobileNet", 32, 112, 3, 1), ("MobileNet", 96, 112, 3, 2), ("MobileNet", 144, 56, 3, 1),
        ("MobileNet", 384, 14, 3, 1), ("MobileNet", 960, 7, 3, 1), ("EfficientNet", 240, 28, 5, 1),
        ("ConvNeXt", 96, 56, 7, 1), ("ConvNeXt", 384, 14, 7, 1),
    )
)  # fmt: skip
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "tf32": torch.float32}
PASSES = ("forward", "input", "weight")
LIMIT = 4
"""Algorithms of cuDNN that are tried for each shape; more take minutes."""


class ConvolutionCall(NamedTuple):
    """One pass of a shape: the op's name, its arguments, and the same by torch."""

    op: str
    args: tuple[Any, ...]
    torch: Callable[[], Any]


def job(
    shape: Shape, which: str, precision: str, last: bool, device: str = "cuda"
) -> ConvolutionCall:
    """The pass with random tensors."""
    dtype, generator = PRECISIONS[precision], torch.Generator(device).manual_seed(1)
    order = torch.channels_last if last else torch.contiguous_format
    out = (shape.size + 2 * shape.pad - shape.taps) // shape.stride + 1

    def made(*size: int) -> Any:
        x = torch.randn(size, device=device, generator=generator)
        return x.to(dtype).contiguous(memory_format=order)

    x = made(shape.n, shape.c, shape.size, shape.size)
    weight = made(shape.k, shape.c // shape.groups, shape.taps, shape.taps)
    dy = made(shape.n, shape.k, out, out) if which != "forward" else None
    stride, pad, one = [shape.stride] * 2, [shape.pad] * 2, [1, 1]
    options = (stride, pad, one, shape.groups, "fp32" if precision == "bf16" else precision)
    if which == "forward":
        return ConvolutionCall(
            "conv2d",
            (x, weight, None, *options),
            lambda: torch.conv2d(x, weight, None, stride, pad, one, shape.groups),
        )
    wants = [which == "input", which == "weight", False]

    def backward() -> Any:
        results = torch.ops.aten.convolution_backward(
            dy, x, weight, None, stride, pad, one, False, [0, 0], shape.groups, wants
        )
        return results[wants.index(True)]

    if which == "input":
        return ConvolutionCall(
            "conv_backward_input", (dy, weight, list(x.shape), *options), backward
        )
    return ConvolutionCall("conv_backward_weight", (dy, x, list(weight.shape), *options), backward)


def error(ours: Any, theirs: Any) -> float:
    """The difference of both results, relative to theirs."""
    return float((ours.double() - theirs.double()).norm() / theirs.double().norm())


def timed(shape: Shape, which: str, precision: str, last: bool) -> dict[str, Any]:
    """The record of one pass. Times in microseconds."""
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    made = job(shape, which, precision, last)
    function = library.function(made.op)
    call = function.call

    def ours() -> Any:
        return call(*made.args)

    used = function.choice(function.request(*made.args)).used
    differ = error(ours(), made.torch())
    called = as_called([ours, made.torch])
    launches = 20 if used.cost < 5e-5 else 6
    single = [alone(f, launches) for f in (ours, made.torch)]
    times = [1e6 * t for t in (*single, *called)]
    names = ("weft", "cudnn", "weft_called", "cudnn_called")
    return {
        "shape": shape._asdict(), "pass": which, "precision": precision, "last": last,
        "kernel": used.name, "modelled": round(1e6 * used.cost, 2),
        "differ": differ, **{n: round(t, 2) for n, t in zip(names, times, strict=True)},
    }  # fmt: skip


def mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def show(row: dict[str, Any]) -> None:
    """A line for a pass."""
    alone_ratio, called = row["cudnn"] / row["weft"], row["cudnn_called"] / row["weft_called"]
    print(
        f"{Shape(**row['shape'])!s:48} {row['pass']:8} {row['precision']} "
        f"{row['weft']:9.1f} µs {row['cudnn']:9.1f} {alone_ratio:5.2f} x  called "
        f"{called:5.2f} x  {row['kernel']}  {row['differ']:.0e}",
        flush=True,
    )


def summary(rows: Sequence[dict[str, Any]]) -> None:
    """The means of each pass."""
    groups: dict[tuple[bool, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        key = (row["shape"]["groups"] > 1, row["precision"], row["pass"])
        groups.setdefault(key, []).append(row)
    for (depthwise, precision, which), own in groups.items():
        ratios = [r["cudnn"] / r["weft"] for r in own]
        called = [r["cudnn_called"] / r["weft_called"] for r in own]
        print(
            f"{'depthwise ' if depthwise else ''}{precision} {which:8} {len(own)} shapes: alone "
            f"{mean(ratios):.2f} x, worst {min(ratios):.2f}; called {mean(called):.2f} x, worst "
            f"{min(called):.2f}"
        )


def cases(precisions: Sequence[str], passes: Sequence[str]) -> Iterator[tuple[Shape, str, str]]:
    """Shapes, passes and precisions; depthwise shapes cannot use tensor cores, hence no tf32."""
    for shapes, without in ((SHAPES, ""), (DEPTHWISE, "tf32")):
        for precision in (p for p in precisions if p != without):
            for which in passes:
                yield from ((shape, which, precision) for shape in shapes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--passes", default=",".join(PASSES))
    parser.add_argument("--last", action="store_true", help="channels_last tensors")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = True, LIMIT
    rows, begin = [], time.monotonic()
    for shape, which, precision in cases(options.precisions.split(","), options.passes.split(",")):
        if time.monotonic() - begin > options.seconds:
            print(f"stopped before {shape}, {which}, {precision}")
            break
        rows.append(timed(shape, which, precision, options.last))
        show(rows[-1])
    summary(rows)
    if options.record:
        facts = {
            "gpu": torch.cuda.get_device_name(), "driver": driver_version(),
            "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "rows": rows,
        }  # fmt: skip
        with options.record.open("a") as file:
            file.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
