"""The CUDA sources of the ops: written with the device library, and known by its text too."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from weft.source import headers, unit

pytest.importorskip("torch")

from weft.ops.core import source

PRIMITIVES = re.compile(r"__shfl\w*|cp\.async|ldmatrix|mma\.sync|max\.NaN|(?:ld|st)\.relaxed")
"""Instructions that the device library has functions for."""
OTHERS = {"attention", "conv", "conv_block", "matmul"}
"""Families whose kernels still write some of them."""


def test_ops_write_no_primitive_of_their_own() -> None:
    found = {
        name: sorted(set(PRIMITIVES.findall(re.sub(r"//[^\n]*", "", path.read_text()))))
        for name, path in source.sources().items()
        if not name.startswith("weft/") and name.partition("/")[0] not in OTHERS
    }
    assert len(found) > 50
    assert {name: words for name, words in found.items() if words} == {}


def test_a_changed_header_is_another_kernel_of_an_op(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the cache of compiled kernels, and in the digest that records have."""
    shutil.copytree(Path(headers.DEVICE_LIBRARY, "weft"), tmp_path / "weft")
    kernel = source.sources()["softmax/forward.cu"]

    def keys() -> tuple[str, str]:
        headers.folders.cache_clear()
        source.digest.cache_clear()
        return unit.make_unit(kernel, "", (), [], ()).key, source.digest()

    monkeypatch.setattr(headers, "DEVICE_LIBRARY", str(tmp_path))
    try:
        before, same = keys(), keys()
        header = tmp_path / "weft" / "math.cuh"  # which block.cuh includes
        header.write_text(header.read_text() + "// changed\n")
        after = keys()
    finally:
        monkeypatch.undo()
        keys()
    assert before == same
    assert before[0] != after[0] and before[1] != after[1]
