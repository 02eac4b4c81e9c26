"""Drafts call shared functions for their vector instructions: the same results, compiled once."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.device import jit
from weft.device.sim.run import shared_code
from weft.device.sim.run.compile import compile_draft
from weft.ir.module import IrModule
from weft.ir.outline import CannotOutline, Outlined, helpers, outline

pytestmark = pytest.mark.sim

ROW = ", ".join(f"i32 {i}" for i in range(8))
MERGES = """
define internal <8 x i32> @twice(<8 x i32> %a) #0 {
entry:
  %t = call <8 x i32> @again(<8 x i32> %a, i32 -3)
  ret <8 x i32> %t
}
define internal <8 x i32> @again(<8 x i32> %a, i32 %n) #0 {
entry:
  %small = icmp slt i32 %n, 0
  br i1 %small, label %down, label %end
down:
  %u = call <8 x i32> @twice(<8 x i32> %a)
  br label %end
end:
  %one = insertelement <8 x i32> poison, i32 %n, i32 0
  %all = shufflevector <8 x i32> %one, <8 x i32> poison, <8 x i32> zeroinitializer
  %t = add <8 x i32> %all, %a
  ret <8 x i32> %t
}
define internal <8 x i32> @plus(<8 x i32> %a, <8 x i32> %b, i32 %n) #0 {
entry:
  %t = mul <8 x i32> %a, %b
  %u = insertelement <8 x i32> %t, i32 %n, i32 %n
  ret <8 x i32> %u
}
define i32 @run(ptr %C, ptr %K) #0 {
entry:
  %x = load <8 x i32>, ptr %C, align 4
  %many = load i32, ptr %K
  %odd = and <8 x i32> %x, splat (i32 1)
  %is = icmp ne <8 x i32> %odd, zeroinitializer
  %start = add <8 x i32> %x, splat (i32 5)
  br label %head
head:
  %i = phi i32 [ 0, %entry ], [ %next, %join ]
  %sum = phi <8 x i32> [ %start, %entry ], [ %more, %join ]
  %mask = phi <8 x i1> [ %is, %entry ], [ %other, %join ]
  %go = icmp ult i32 %i, %many
  br i1 %go, label %body, label %end
body:
  %bit = and i32 %i, 1
  %even = icmp eq i32 %bit, 0
  %k = add i32 %i, 7
  %ks = insertelement <8 x i32> poison, i32 %k, i32 0
  %kv = shufflevector <8 x i32> %ks, <8 x i32> poison, <8 x i32> zeroinitializer
  br i1 %even, label %then, label %else
then:
  %p = mul <8 x i32> %sum, %kv
  br label %join
else:
  %q = select <8 x i1> %mask, <8 x i32> %kv, <8 x i32> %sum
  %first = extractelement <8 x i32> %q, i32 %bit
  %at = getelementptr i8, ptr %K, i64 8
  store i32 %first, ptr %at
  br label %join
join:
  %r = phi <8 x i32> [ %p, %then ], [ %q, %else ]
  %f = call <8 x i32> @FUNCTION
  %g = call <8 x i32> @plus(<8 x i32> %f, <8 x i32> splat (i32 11), i32 4)
  %h = call <8 x i32> @plus(<8 x i32> %g, <8 x i32> @ROW, i32 4)
  %more = add <8 x i32> %r, %h
  %other = xor <8 x i1> %mask, splat (i1 true)
  %next = add i32 %i, 1
  br label %head
end:
  store <8 x i32> %sum, ptr %C, align 4
  %bits = bitcast <8 x i1> %mask to i8
  %wide = zext i8 %bits to i32
  ret i32 %wide
}
""".replace("@FUNCTION", "@again(<8 x i32> %r, i32 9)").replace("@ROW", f"<{ROW}>")
"""Vectors that branches and loops merge, masks, numbers in calls, mutual recursion."""

EXCHANGES = """
define i32 @run(ptr %C, ptr %K) #0 {
entry:
  %x = load <8 x i32>, ptr %C
  %y = load <8 x i32>, ptr %K
  br label %head
head:
  %a = phi <8 x i32> [ %x, %entry ], [ %b, %head ]
  %b = phi <8 x i32> [ %y, %entry ], [ %a, %head ]
  %s = extractelement <8 x i32> %a, i32 0
  %go = icmp eq i32 %s, 0
  br i1 %go, label %head, label %end
end:
  ret i32 %s
}
"""


def _module(text: str) -> str:
    return text + IrModule().text()


def _run(code: jit.LoadedCode, turns: int) -> tuple[int, bytes, bytes]:
    x, k = np.arange(8, dtype=np.int32) * 3, np.array([turns, 0, 0, 0], np.int32)
    result = code.run(x.ctypes.data, k.ctypes.data)
    return result, x.tobytes(), k.tobytes()


def test_outlined_code_computes_the_same() -> None:
    text = _module(MERGES.replace("i32 -3", "i32 3"))
    outlined = outline(text)
    assert "<8 x i32>, ptr %C" not in outlined.kernel and "phi <" not in outlined.kernel
    libraries = list(shared_code.provide(outlined).values())
    full = jit.load_object(jit.compile_object(text))
    draft = jit.load_object(jit.compile_object(outlined.kernel, draft=True), libraries)
    for turns in range(5):
        assert _run(full, turns) == _run(draft, turns)


def test_names_stand_for_contents() -> None:
    first, other = (set(outline(_module(MERGES.replace("-3", n))).shared) for n in ("-3", "-4"))
    changed = first - other  # `twice` and `again`, which call each other, and what calls them
    assert changed and len(changed) == len(other - first) < len(first)


def test_vectors_that_a_loop_exchanges_are_not_outlined() -> None:
    with pytest.raises(CannotOutline):
        outline(_module(EXCHANGES))
    made = compile_draft(_module(EXCHANGES))
    assert jit.load_object(made.data) and not made.shared


CALLS = """
define internal i32 @{name}(i32 %a) #0 {{
entry:
  %t = add i32 %a, {number}
  {more}
  ret i32 %{result}
}}
"""
STARTS = """
define i32 @run(ptr %C, ptr %K) #0 {
entry:
  %x = call i32 @NAME(i32 4)
  ret i32 %x
}
"""


def test_code_is_loaded_after_what_it_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    shared_code.forget()
    leaf = CALLS.format(name="leaf", number=71, more="", result="t")
    calls = "%u = call i32 @leaf(i32 %t)"
    root = CALLS.format(name="root", number=5, more=calls, result="u")
    first = compile_draft(_module(leaf + STARTS.replace("NAME", "leaf")))
    second = compile_draft(_module(leaf + root + STARTS.replace("NAME", "root")))
    assert len(first.shared) == 1 and len(second.shared) == 2, "the second batch calls the first"
    later = next(batch for batch in second.shared if batch not in first.shared)
    shared_code.forget()
    libraries = shared_code.load([later])
    assert libraries and set(shared_code._loaded) == set(second.shared)
    x = np.zeros(8, np.int32)
    code = jit.load_object(second.data, libraries)
    assert code.run(x.ctypes.data, x.ctypes.data) == 4 + 5 + 71


KERNEL = "__global__ void shares(float* x) {{ x[threadIdx.x] = x[threadIdx.x] * {n}.0f + 2.0f; }}"


def test_kernels_share_code_with_those_of_other_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("WEFT_DRAFTS", "1")
    made: list[int] = []
    real = shared_code._compile

    def counted(
        outlined: Outlined, missing: list[str], found: dict[str, jit.LoadedLibrary]
    ) -> None:
        made.append(len(missing))
        real(outlined, missing, found)

    monkeypatch.setattr(shared_code, "_compile", counted)
    results = []
    for n in (3, 4, 3):
        shared_code.forget()
        x = np.arange(32, dtype=np.float32)
        weft.cuda(KERNEL.format(n=n)).shares[1, 32](x)
        results.append(x)
        assert x.tolist() == [i * n + 2.0 for i in range(32)]
    # The first kernel makes helpers, and outlined instructions.
    assert len(made) <= 3 and sum(made[2:]) < sum(made[:2]) / 2


def test_helpers_whose_callees_are_not_written_yet_wait() -> None:
    """The IR of a kernel is given in two steps; a helper may be written in the first one alone."""
    text = """
define internal i32 @whole(i32 %a) #0 {
entry:
  ret i32 %a
}
define internal i32 @outer(i32 %a) #0 {
entry:
  %t = call i32 @inner(i32 %a)
  ret i32 %t
}
define internal i32 @inner(i32 %a) #0 {
entry:
  %t = call i32 @later(i32 %a)
  ret i32 %t
}
"""
    shared = list(helpers(text + IrModule().text()).shared.values())
    assert len(shared) == 1
    assert "ret i32 %a" in shared[0]
