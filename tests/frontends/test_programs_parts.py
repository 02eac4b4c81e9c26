"""The parts of whole programs that need no compiler: flags, fat binaries, linking, cuBLAS."""

from __future__ import annotations

import base64
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.device import models
from weft.errors import Error, PtxError
from weft.frontends.program import libraries
from weft.frontends.program.flags import for_linking, versioned, wanted
from weft.frontends.program.images import device_code, fatbin, linked
from weft.frontends.program.libraries import blas
from weft.frontends.program.nvcc import command_line
from weft.frontends.program.parallel import parallel
from weft.ptx.parse import parse


# ---- flags --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("-Ifoo -DN=4 -std=c++20 -O3", "-Ifoo -DN=4 -std=c++20 -O3"),
        ("-arch=sm_70 -gencode arch=compute_80,code=sm_80 -O2", "-O2"),
        ("-o out -c -lineinfo -lcublas -lcudart -lcurand_static -lm", "-lm"),
        ("-Xcompiler -fopenmp -lgomp", "-Xcompiler -fopenmp -lgomp"),
        ("-arch", ""),  # its value is missing
    ],
)
def test_flags_that_weft_decides_are_left_out(given: str, kept: str) -> None:
    assert wanted(given.split()) == kept.split()


@pytest.mark.parametrize(
    "given", ["-x cu", "--x=cu", "-x=cu", "-include a.h", "-rdc=true", "--device-c"]
)
def test_flags_of_the_compiler_alone_are_not_for_the_linker(given: str) -> None:
    assert for_linking(["-lm", *given.split(), "-g"]) == ["-lm", "-g"]


def test_a_version_of_cuda_is_not_nvccs_own_flag() -> None:
    assert versioned(["--cuda", "x.cu"]) == ["--cuda", "x.cu"]
    assert versioned(["--cuda", "13", "-O2"]) == versioned(["--cuda=13.1", "-O2"]) == ["-O2"]
    assert "weft_cuda12.h" in versioned(["-O2", "--cuda", "12"])
    with pytest.raises(Error, match="12 or 13"):
        versioned(["--cuda=11"])


def test_the_linker_does_not_see_relocatable_device_code() -> None:
    assert for_linking(["-rdc=true", "-dc", "-lm"]) == ["-lm"]
    assert for_linking(["-include", "own.h", "-lm"]) == ["-lm"]  # stubs have no header


def test_a_command_line_is_read(tmp_path: Path) -> None:
    (tmp_path / "objects.rsp").write_text('a.o "b c.o"')
    (tmp_path / "libown.a").touch()
    line = command_line.read(
        ["@" + str(tmp_path / "objects.rsp"), "-L", str(tmp_path), "-lown", "-lm", "-shared",
         "--keep-dir", "tmp", "/cuda/lib64/libcudart.so", "/cuda/libcublas_static.a", "libmy.so"]
    )  # fmt: skip
    assert line.objects == ["a.o", "b c.o", str(tmp_path / "libown.a")]
    flags = f"-L {tmp_path} -lm --keep-dir tmp -Xlinker libmy.so"
    assert (line.flags, line.mode) == (flags.split(), "-shared")


def test_a_line_of_the_host_linker_becomes_one_of_nvcc() -> None:
    line = "-v -O2 -rdynamic a.o -o prog -Wl,-rpath,/x -L/y -lm -shared libz.a"
    wanted = "-Xcompiler -O2 -Xcompiler -rdynamic a.o -o prog -Xlinker -rpath,/x -L/y -lm -shared"
    assert command_line.of_host_linker(line.split()) == [*wanted.split(), "libz.a"]


# ---- fat binaries -------------------------------------------------------------------------------
def fat(*entries: tuple[int, bytes]) -> bytes:
    body = b"".join(struct.pack("<HHIQ", k, 0, 24, len(d)) + bytes(8) + d for k, d in entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_ptx_is_found_in_a_fat_binary() -> None:
    data = fat((2, b"\x7fELF machine code"), (1, b".version 8.0\n\0\0"), (1, b".version 8.1\n"))
    assert fatbin.texts(data) == [".version 8.0\n", ".version 8.1\n"]


ZSTD = base64.b85decode(
    "0RRC3Pyhe`zyJUM00000y#N3JKmY&$1ON#DPyhe`00000000005r6;y000000000000000{r~^~00000NB{r;000"
    "000000000000D77#BApWHV0Md#hAYezV129z)TTU}<BnzqL76Jgo-mUR9+Co}6F$g47#DzcMUz7U_F*KTzDZi3Z1"
    "4(QYp)VuB=0x~xoZDtZ@MUP!KwK9N{$EV8xGq#Fi%Cltni6OA;oc)W;0I#|RZ3zNYTXL<00%YbiQrX+&XZ3m$_Gy"
    "}DY>0%`$K?1QYSy%=3ec9BI1+H(LN0TP=$CZ5T|v@aOSCoCw)r^wILcn1YFZ3G0dAM)zD;42mk;8"
)
"""An entry of nvcc 13.4: PTX of a kernel `k` that writes 42, compressed with Zstandard."""


def packed(plain: bytes, data: bytes, flags: int) -> bytes:
    """An entry of a fat binary with compressed PTX, and the fat binary around it."""
    fields = 1, 0, 64, len(data), len(data), 64, flags, len(plain)
    entry = struct.pack("<HHIQII8x8xQ8xQ", *fields)[:64] + data
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry


def test_ptx_that_is_compressed_with_zstandard_is_read() -> None:
    (text,) = fatbin.texts(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(ZSTD)) + ZSTD)
    assert ".entry k(" in text and ", 42;" in text
    with pytest.raises(PtxError, match="damaged"):
        fatbin.texts(packed(bytes(99), ZSTD[0x50:0x70], 0x8000))


def test_ptx_that_is_compressed_with_lz4_is_read() -> None:
    plain = b".version 8.0\n" + b"ab" * 150 + b"the end"
    copied = 300 - 2 - 4  # all but the first "ab", and 4 that are always copied
    lengths = bytes([255, copied - 15 - 255])
    data = bytes([0xFF, 0]) + plain[:15] + b"\2\0" + lengths + b"\x70the end"
    assert fatbin.texts(packed(plain, data, 0x2000)) == [plain.decode()]
    with pytest.raises(PtxError, match="damaged"):
        fatbin.texts(packed(plain, data[:19], 0x2000))


def test_device_code_is_found_in_an_archive_of_objects() -> None:
    fat_binary = fat((1, b".version 8.0\n\0\0\0"))
    names = b"\0.nv_fatbin\0"
    at = 64 + 3 * 64
    row = "<II8x8xQQ24x"
    sections = struct.pack(row, 0, 0, 0, 0) + struct.pack(row, 1, 1, at, len(fat_binary))
    sections += struct.pack(row, 0, 3, at + len(fat_binary), len(names))
    elf = b"\x7fELF" + bytes(14) + struct.pack("<H20xQ10xHHH", 62, 64, 64, 3, 2)
    member = elf + sections + fat_binary + names
    archive = (
        b"!<arch>\n" + b"a.o/".ljust(48) + str(len(member)).encode().ljust(10) + b"`\n" + member
    )
    assert fatbin.texts(archive) == fatbin.texts(member) == [".version 8.0\n"]


def test_what_holds_no_ptx_says_what_it_holds() -> None:
    assert fatbin.contents(fat((8, b"ir"), (2, b"\x7fELF"))) == ([], "LTO-IR, machine code (SASS)")
    with pytest.raises(PtxError, match="not a fat binary"):
        fatbin.texts(bytes(32))


def test_a_gpu_takes_the_newest_ptx_that_it_can_run() -> None:
    texts = [f".version 8.0\n.target sm_{n}\n" for n in (75, 80, 90, 100)]
    chosen = {key: device_code.newest(texts, models.get(key)) for key in ("rtx3070", "h100")}
    assert chosen == {"rtx3070": texts[1:2], "h100": texts[2:3]}


# ---- linking ------------------------------------------------------------------------------------
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
CALLER = (
    HEAD
    + """
.extern .func (.param .b32 r) helper(.param .b32 a);
.extern .global .align 4 .u32 shared_value;
.global .align 1 .b8 $str[3] = {104, 105, 0};
.weak .func common() { ret; }
.visible .entry k(.param .u64 x) {
    .reg .u64 %p;
    .loc 1 5 0
    mov.u64 %p, $str;
    ret;
}
.file 1 "caller.cu"
"""
)
HELPER = (
    HEAD
    + """
.visible .global .align 4 .u32 shared_value = 7;
.global .align 1 .b8 $str[2] = {33, 0};
.weak .func common() { ret; }
.visible .func (.param .b32 r) helper(.param .b32 a) {
    .reg .b32 %a;
    .loc 1 9 0
    ld.param.b32 %a, [a];
    st.param.b32 [r], %a;
    ret;
}
.file 1 "helper.cu"
"""
)


def test_modules_become_one() -> None:
    module = parse(linked.link([CALLER, HELPER]))
    assert set(module.functions) == {"k", "helper", "common"}
    assert {v: module.variables[v].init for v in module.variables} == {
        "$str__0": b"hi\0",
        "$str__1": b"!\0",
        "shared_value": b"\7\0\0\0",
    }
    lines = {
        name: [str(i.loc) for i in f.body if getattr(i, "loc", None)]
        for name, f in module.functions.items()
    }
    assert lines["k"][0] == "caller.cu:5" and lines["helper"][0] == "helper.cu:9"


def test_one_module_stays_as_it_is() -> None:
    assert linked.link([CALLER]) == CALLER


def test_two_definitions_are_refused() -> None:
    with pytest.raises(PtxError, match="two files of the program define 'shared_value'"):
        linked.link([HELPER, HELPER])


# ---- cuBLAS -------------------------------------------------------------------------------------
KINDS = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "int32": 10, "bfloat16": 14}


def call(operation: str, kind: str, **fields: Any) -> int:
    code = KINDS[kind]
    values: dict[str, Any] = {"type_a": code, "type_b": code, "type_c": code, "type_scale": code}
    keep = []
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            keep.append(value)
            value = value.ctypes.data
        values[name] = value
    return libraries.compute(f"blas_{operation}", blas.BlasCall(**values))


def test_int8_products_are_summed_in_int32() -> None:
    a = np.full((3, 200), 100, np.int8, order="F")
    b = np.full((200, 2), 100, np.int8, order="F")
    c = np.zeros((3, 2), np.int32, order="F")
    one, zero = np.array([1], np.int32), np.array([0], np.int32)
    sizes = {"m": 3, "n": 2, "k": 200, "lda": 3, "ldb": 200, "ldc": 3}
    kinds = {"type_c": KINDS["int32"], "type_scale": KINDS["int32"]}
    assert call("gemm", "int8", a=a, b=b, c=c, alpha=one, beta=zero, **sizes, **kinds) == 0
    assert (c == 2_000_000).all()


def test_beta_zero_does_not_read_c() -> None:
    one, zero = np.array([1], np.float32), np.array([0], np.float32)
    a, c = np.eye(2, dtype=np.float32), np.full((2, 2), np.nan, np.float32)
    sizes = {"m": 2, "n": 2, "k": 2, "lda": 2, "ldb": 2, "ldc": 2}
    assert call("gemm", "float32", a=a, b=a, c=c, alpha=one, beta=zero, **sizes) == 0
    assert (c == a).all()


def test_bfloat16_rounds_to_nearest_even() -> None:
    bits = np.array([0x3F80, 0x3F81, 0x7FC0], np.uint16)  # 1, the next one, NaN
    out = np.zeros(3, np.uint16)
    one, zero = np.array([1], np.float32), np.array([0], np.float32)
    unit = np.array([0x3F80], np.uint16)
    sizes = {"m": 3, "n": 1, "k": 1, "lda": 3, "ldb": 1, "ldc": 3, "type_scale": KINDS["float32"]}
    assert call("gemm", "bfloat16", a=bits, b=unit, c=out, alpha=one, beta=zero, **sizes) == 0
    assert list(out) == [0x3F80, 0x3F81, 0x7FC0]


def test_an_unknown_type_is_not_supported() -> None:
    assert call("gemm", "float32", type_a=99) == blas.NOT_SUPPORTED


def test_what_fails_begins_nothing_more() -> None:
    """So that Ctrl-C does not wait for every file of a build."""
    begun = []

    def slow() -> None:
        begun.append(1)
        time.sleep(0.05)

    def fails() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        parallel([fails, *[slow] * 400])
    assert len(begun) < 400
