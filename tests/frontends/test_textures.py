"""Textures and surfaces of whole programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nvcc
import weft
from folders import TESTS
from weft.frontends import program

PROGRAMS = TESTS / "programs" / "textures"


# program, what it prints, parts of standard error
ROWS = (
    ("images.cu", "pictures agree\n", ()),
    ("surfaces.cu", "surfaces agree\n", ()),
    ("driver.cu", "the driver agrees\n", ()),
    (
        "refused.cu",
        "cudaErrorIllegalAddress\ncudaErrorIllegalAddress\ncudaErrorMisalignedAddress\n",
        (
            "cudaMemcpy2DToArray: 32 bytes x 4 x 1 do not fit",
            "refused.cu:11  `*out = tex2D<float>(texture, 0.5f, 0.5f);`",
            "fetch uses object 1, which was destroyed or never made",
            "refused.cu:5  `surf2Dwrite(1.0f, surface, threadIdx.x * 4, row);`",
            "store accesses surface object 3 out of range: byte 32 of row 3",
            "block (0, 0, 0), thread (8, 0, 0)",
            "store_at makes a misaligned access to surface object 4: byte 2",
        ),
    ),
)


@nvcc.needed
@pytest.mark.parametrize(("file", "out", "err"), ROWS, ids=[row[0] for row in ROWS])
def test_program(
    file: str, out: str, err: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    code = program.run(str(PROGRAMS / file), ())
    printed, said = capfd.readouterr()
    assert (printed, code) == (out, 0), said
    assert [part for part in err if part not in said] == [], said


@nvcc.needed
def test_fetches_are_those_of_an_h200(tmp_path: Path) -> None:
    """The first fetches of each texture of `probe.cu`, bit for bit, but for those that differ.

    `exact` names the textures for which the 64 fetches of two seeds were equal on an H200.
    """
    with np.load(TESTS / "golden" / "hardware" / "textures.npz") as recorded:
        seed, expected, exact = int(recorded["seed"]), recorded["results"], recorded["exact"]
    file = tmp_path / "results"
    arguments = (str(seed), str(expected.shape[1]), str(file))
    assert program.run(str(PROGRAMS / "probe.cu"), arguments) == 0
    results = np.fromfile(file, np.uint32).reshape(expected.shape)
    equal = (results == expected).all((1, 2))
    assert np.flatnonzero(exact & ~equal).tolist() == []
    assert exact.sum() >= 290


PTX = """
.version 8.0
.target sm_90
.address_size 64
.entry k(.param .u64 x) {{
    .reg .u64 %p;
    .reg .f32 %f<4>;
    .reg .u32 %r<4>;
    ld.param.u64 %p, [x];
    {}
    ret;
}}
"""


@pytest.mark.parametrize(
    ("line", "error", "what"),
    [
        (
            "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%p, {%f0}];",
            weft.PtxError,
            "as many registers",
        ),
        ("tex.2d.v4.f32.f32 {%f0, %f1}, [%p, {%f0, %f1}];", weft.PtxError, "as many registers"),
        ("suld.b.1d.v2.b32.trap {%r0}, [%p, {%r1}];", weft.PtxError, "as many registers"),
        ("txq.width.b32 %r0, [%p+4];", weft.PtxError, "no offset"),
        ("sust.p.1d.b32.trap [%p, {%r1}], {%r0};", weft.UnsupportedInstruction, "does not cover"),
        ("sust.b.1d.b32.trap [%p, {%r1}], {%r0};", weft.DeviceError, "texture or surface"),
    ],
)
def test_refused(line: str, error: type[weft.Error], what: str) -> None:
    with pytest.raises(error, match=what):
        weft.load_ptx(PTX.format(line)).k[1, 32](0)
