"""
rung:   01 cpu
idea:   the same loops in C, with the two inner ones exchanged, so that memory is read in order
        and the compiler can vectorise; one core
arrays: numpy
bench:  M=512, N=512, K=512
"""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from weft.errors import MissingDependency

SOURCE = """
void matmul(const float* A, const float* B, float* restrict C, long M, long N, long K) {
    for (long i = 0; i < M * N; ++i) C[i] = 0;
    for (long i = 0; i < M; ++i)
        for (long k = 0; k < K; ++k)
            for (long j = 0; j < N; ++j) C[i * N + j] += A[i * K + k] * B[k * N + j];
}
"""


@functools.cache
def library():
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise MissingDependency("this rung needs a C compiler", next="install gcc or clang")
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "matmul.c"), Path(folder, "matmul.so")
        source.write_text(SOURCE, encoding="utf-8")
        flags = ["-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run([compiler, *flags, str(source), "-o", str(built)], check=True)
        return ctypes.CDLL(str(built))


def run(A, B, C, M, N, K):
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (A, B, C)]
    library().matmul(*pointers, *(ctypes.c_long(n) for n in (M, N, K)))
