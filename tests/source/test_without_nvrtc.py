"""A Python without NVRTC and NVIDIA's Python packages, as on macOS: docs/platforms.md."""

from __future__ import annotations

import subprocess
import sys

import pytest

HIDE = """
import sys
sys.modules["cuda"] = None
from weft.source import nvrtc
nvrtc._WHEEL = "missing"
nvrtc._NAME = "missing.so"
import weft
"""
PTX = '''
import numpy as np
x = np.zeros(32, np.float32)
weft.load_ptx(""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b32 %r<2>; .reg .b64 %rd<3>; .reg .f32 %f<2>;
    ld.param.u64 %rd0, [p];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    cvt.rn.f32.u32 %f0, %r0;
    st.global.f32 [%rd2], %f0;
    ret;
}
""").k[1, 32](x)
print(x.sum())
'''
VERB = "from weft.__main__ import main; sys.argv[1:] = {!r}; main()"


def python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"{HIDE}\n{code}"]
    return subprocess.run(command, capture_output=True, text=True)


def test_ptx_runs() -> None:
    done = python(PTX)
    assert done.stdout == "496.0\n", done.stderr


@pytest.mark.parametrize("words", [["--version"], ["isa", "mad"], ["devices"]], ids=lambda w: w[0])
def test_commands_that_need_no_compiler(words: list[str]) -> None:
    done = python(VERB.format(words))
    assert done.returncode == 0 and done.stdout, done.stderr


def test_cuda_names_what_is_missing() -> None:
    source = "__global__ void kernel_that_no_cache_has_7c1f(int* x) { *x = 1; }\\n"
    done = python(
        f"import tempfile, os; os.environ['WEFT_CACHE_DIR'] = tempfile.mkdtemp()\n"
        f"weft.cuda('{source}')"
    )
    assert "MissingDependency: NVRTC (the CUDA C++ compiler) cannot be loaded" in done.stderr
    assert "next: pip install 'cuda-bindings>=13,<14' 'nvidia-cuda-nvrtc>=13,<14'" in done.stderr
