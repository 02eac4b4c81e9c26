"""`char` has a sign on every CPU; NVRTC and nvcc by themselves give it none on ARM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nvcc
import weft
from weft.source import nvrtc
from weft.source.unit import make_unit

KERNEL = """__global__ void widen(const char* x, int* y) {
    y[threadIdx.x] = x[threadIdx.x];
}
"""
HOST_CODE = "#include <iostream>\nint main() { std::cout << 1; }\n"
UNSIGNED = "-Xcudafe=--unsigned_chars"


def widened(module: weft.Module) -> list[int]:
    y = np.zeros(3, np.int32)
    module.widen[1, 3](np.array([1, -3, -128], np.int8), y)
    return y.tolist()


def test_signed() -> None:
    assert widened(weft.cuda(KERNEL)) == [1, -3, -128]


@nvcc.needed
def test_in_a_file_with_host_code(tmp_path: Path) -> None:
    (tmp_path / "whole.cu").write_text(HOST_CODE + KERNEL)
    assert widened(weft.cuda(tmp_path / "whole.cu")) == [1, -3, -128]


def test_an_option_of_the_user_wins() -> None:
    assert widened(weft.cuda(KERNEL, options=[UNSIGNED])) == [1, 253, 128]


@pytest.mark.parametrize("flags", [[], [UNSIGNED]])
def test_every_compilation_states_it_first(flags: list[str]) -> None:
    options = make_unit(KERNEL, "kernel.cu", (), flags, ()).options
    assert options[0] == nvrtc.SIGNED_CHARS and set(flags) <= set(options[1:])
