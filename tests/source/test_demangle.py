"""Names and parameters of kernels, read from mangled names and from source text."""

from __future__ import annotations

import pytest

from weft.source import demangle, scan


def doubling(levels: int) -> str:
    """Each parameter a template of the one before, twice: its spelling grows as 2^levels."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    codes = ["", *(digits[2 * level - 1] for level in range(1, levels))]
    return "_Z1k1A" + "".join(f"1BIS{code}_S{code}_E" for code in codes)


# mangled name -> what c++filt says
NAMES = [
    ("_Z5saxpyIfEvT_PKS0_PS0_i", "saxpy<float>(float, float const*, float*, int)"),
    ("_ZN2ns5inner1kILi4EfEEvPT0_NS_1PE", "ns::inner::k<4, float>(float*, ns::P)"),
    ("_Z1kPFvfEPA4_fRA3_KdOiPVKj",
     "k(void (*)(float), float (*) [4], double const (&) [3], int&&, "
     "unsigned int const volatile*)"),
    ("_Z1k6__halfPK13__nv_bfloat16S0_S2_",
     "k(__half, __nv_bfloat16 const*, __nv_bfloat16, __nv_bfloat16 const*)"),
    ("_Z1kN4cuda3std3__45arrayIfLm4EEE", "k(cuda::std::__4::array<float, 4ul>)"),
    ("_Z1kP3VecIfLb1EEPKS0_S1_S3_",
     "k(Vec<float, true>*, Vec<float, true> const*, Vec<float, true>*, Vec<float, true> const*)"),
    ("_Z1kSt6vectorIiSaIiEES1_",
     "k(std::vector<int, std::allocator<int>>, std::vector<int, std::allocator<int>>)"),
    ("_Z1kI3VecEvT_IiES1_IfE", "k<Vec>(Vec<int>, Vec<float>)"),
    ("_Z1kIJifdEEvDpPT_", "k<int, float, double>(int*, float*, double*)"),
    ("_Z1kPiS_PS_S0_PKS_", "k(int*, int*, int**, int**, int* const*)"),
    ("_Z1kILj128ELin4EEvv", "k<128u, -4>()"),
    ("_Z1kIfLi4EEvPT_PAT0__KS0_S1_", "k<float, 4>(float*, float const (*) [4], float*)"),
    (doubling(2), "k(A, B<A, A>, B<B<A, A>, B<A, A>>)"),
]  # fmt: skip


@pytest.mark.parametrize("mangled, spelled", NAMES)
def test_demangle(mangled: str, spelled: str) -> None:
    function = demangle.function(mangled)
    assert f"{function.name}({', '.join(function.parameters)})" == spelled


# names that must be refused quickly, and never crash
UNREADABLE = [
    "", "k", "_Z", "_Z9k", "_Z1kS_", "_Z1kT_", "_Z1kIiE", "_Z1kIXadL_Z1fvEEEvv", "_Z1kUlvE_",
    "_Z1kPé", "_Z1k" + "P" * 5000, "_Z" + "9" * 5000, "_Z1kS" + "z" * 5000 + "_",
    "_Z1kI" + "J" * 5000, "_Z1k" + "1BI" * 5000, doubling(18),
]  # fmt: skip


@pytest.mark.parametrize("mangled", UNREADABLE, ids=lambda name: name[:12])
def test_demangle_refuses(mangled: str) -> None:
    with pytest.raises(demangle.Unreadable):
        demangle.function(mangled)


def test_scan_sees_past_comments_and_attributes() -> None:
    text = """
    // __global__ void no(int a) {}
    /* __global__ void no(int a) {} */
    __global__ void __launch_bounds__(64 * (2 + 2)) k(const int* __restrict__ a, // first, of two
        Pair<int, float> b = {1, 2}, int (&c)[4], float, unsigned int, T... d) {}
    __global__ void declared(int n);
    """
    assert scan.kernels(text) == [
        scan.ScannedKernel("k", ("a", "b", "c", "", "", "d"), False),
        scan.ScannedKernel("declared", ("n",), False),
    ]
