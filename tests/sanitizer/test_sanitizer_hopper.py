"""A product by tensor copies and warpgroups under the sanitizer: right, and with a bug.

The bugs of one instruction each are in tests/bugs/hopper.cu.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import weft
from folders import TESTS
from weft.values.findings import Finding

SOURCE = TESTS / "kernels" / "tensor_pipeline.cu"
STEPS = 3


@cache
def kernel() -> weft.Kernel:
    return weft.cuda(SOURCE, arch="sm_90a", device="sim:h200").kernel("product")


def line(mark: str) -> int:
    """The line of the kernel that has this mark."""
    return next(i for i, s in enumerate(SOURCE.read_text().splitlines(), 1) if s.endswith(mark))


def sanitized(bug: int) -> list[Finding]:
    random = np.random.default_rng(1)
    a, b = (random.integers(-2, 3, (n, 64 * STEPS)).astype(np.float16) for n in (128, 16))
    c = np.zeros((128, 8), np.float32)
    maps = [weft.tensor_map(x, box=(len(x), 64), swizzle=128) for x in (a, b)]
    with weft.sanitize(raises=False) as report:
        kernel()[1, 384](*maps, weft.tensor_map(c, box=c.shape), STEPS, bug)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b[:8].astype(np.float32).T)
    return report.findings


def test_a_right_pipeline_is_clean() -> None:
    assert not sanitized(0)


@pytest.mark.parametrize(
    ("bug", "kind", "mark", "advice"),
    [
        (1, "missing wait", "// refilled", "wgmma.wait_group"),
        (2, "missing fence", "// stored", "fence.proxy.async"),
    ],
)
def test_bugs_that_the_results_hide(bug: int, kind: str, mark: str, advice: str) -> None:
    findings = sanitized(bug)
    assert {f.kind for f in findings} == {kind}
    assert line(mark) in {f.accesses[0].number for f in findings}
    assert all(advice in f.next for f in findings)
