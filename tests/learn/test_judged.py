"""Exercises that a function of the chapter judges: wrong answers, and ones that avoid the task."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.learn import c_code, chapter, exercise, judge
from weft.learn.exercise import Exercise, JudgedExercise
from weft.learn.grade import grade
from weft.values.learn.course import Grade

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.sim

EXERCISES = {e.title: e for n in (33, 34) for e in chapter.find(n).exercises}
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def graded(folder: Path, title: str, source: str) -> Grade:
    path = folder / EXERCISES[title].file
    path.write_text(source)
    return grade(EXERCISES[title], path)


def changed(title: str, *pairs: tuple[str, str]) -> str:
    """The solution with replacements, each of which must hit."""
    text = EXERCISES[title].solution.read_text()
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


RECURSIVE = '''"""Follow every path from the result to the inputs."""
import math


class Value:
    def __init__(self, data, inputs=()):
        self.data, self.grad, self.inputs = float(data), 0.0, inputs

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data * other.data, ((self, other.data), (other, self.data)))

    __radd__, __rmul__ = __add__, __mul__

    def tanh(self):
        t = math.tanh(self.data)
        return Value(t, ((self, 1 - t * t),))

    def backward(self, part=1.0):
        self.grad += part
        for one, slope in self.inputs:
            one.backward(part * slope)
'''
PATHS = RECURSIVE.replace(
    "    def backward(self, part=1.0):\n        self.grad += part\n"
    "        for one, slope in self.inputs:\n            one.backward(part * slope)\n",
    "    def backward(self):\n        stack = [(self, 1.0)]\n        while stack:\n"
    "            value, part = stack.pop()\n            value.grad += part\n"
    "            stack.extend((one, part * slope) for one, slope in value.inputs)\n",
)

PLACE = """    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
"""
NO_TILES = f"""
__global__ void forward(const float* x, const float* w, const float* b, float* y, int n, int k,
                        int m) {{
{PLACE}    if (row >= n || column >= m) return;
    for (int i = 0; i < k; i++) sum += x[row * k + i] * w[column * k + i];
    y[row * m + column] = sum + b[column];
}}
__global__ void backward_x(const float* dy, const float* w, float* dx, int n, int k, int m) {{
{PLACE}    if (row >= n || column >= k) return;
    for (int i = 0; i < m; i++) sum += dy[row * m + i] * w[i * k + column];
    dx[row * k + column] = sum;
}}
__global__ void backward_w(const float* dy, const float* x, float* dw, int n, int k, int m) {{
{PLACE}    if (row >= m || column >= k) return;
    for (int i = 0; i < n; i++) sum += dy[i * m + row] * x[i * k + column];
    dw[row * k + column] = sum;
}}
"""
WRONG = {
    "a layer without tiles": ("33 linear", NO_TILES, "shared loads >= 500", "shared loads is 0"),
    "sums by atomics": (
        "34 kernels",
        changed("34 kernels", ("g[i] = sum;", "g[i] = 0; atomicAdd(g + i, sum);")),
        "global atomics = 0",
        "global atomics is",
    ),
    "PyTorch in place of an own class": (
        "33 value",
        "import torch\n\n\ndef Value(x):\n    return torch.tensor(x, requires_grad=True)\n",
        "imports nothing but math",
        "uses torch",
    ),
    "an import by another name": (
        "33 neuron",
        "np = __import__('numpy')\n",
        "imports nothing",
        "uses __import__",
    ),
    "a syntax error": ("33 value", "class Value\n", "compile", "SyntaxError"),
    "an empty class": ("33 value", "class Value:\n    pass\n", "right", "TypeError"),
    "a recursion": ("33 value", RECURSIVE, "right", "recursion ends"),
    "every path": ("33 value", PATHS, "right", "visit each Value once"),
    "a gradient that is stored": (
        "33 value",
        changed("33 value", ("parts.get(one, 0.0) + part", "part")),
        "right",
        "the grad of",
    ),
    "a gradient of the broadcast shape": (
        "33 arrays",
        changed("33 arrays", ("    d = d.sum(axis=tuple(range(d.ndim - len(shape))))\n", "")),
        "right",
        "",
    ),
    "differences to one side": (
        "33 jacobian",
        changed("33 jacobian", ("        below[j] -= h\n", "")),
        "right",
        "differences is off by",
    ),
    "a step of one size": (
        "33 jacobian",
        changed("33 jacobian", ("6e-6 * max(1.0, abs(x[j]))", "1e-8")),
        "right",
        "differences is off by",
    ),
    "a formula without the bias": (
        "33 jacobian",
        changed("33 jacobian", ("np.tanh(w @ x + b)\n    return", "np.tanh(w @ x)\n    return")),
        "right",
        "by_hand of a layer",
    ),
    "a Hessian by differences": (
        "33 hessian",
        changed(
            "33 hessian",
            (
                "inputs = Value(x), Value(y)",
                "f(Value(x), Value(y))\n    inputs = Value(x), Value(y)",
            ),
        ),
        "right",
        "calls f 2 times",
    ),
    "a derivative that is a number": (
        "33 hessian",
        changed("33 hessian", ("result * result * -1 + 1)", "Value(1 - result.data**2))")),
        "right",
        "by_backward of",
    ),
    "rows and columns exchanged": (
        "34 look",
        changed("34 look", ('x="{x}" y="{y}"', 'x="{y}" y="{x}"')),
        "right",
        "shows another image",
    ),
    "a page that is not well-formed": (
        "34 look",
        changed("34 look", ("</body></html>", "</body>")),
        "right",
        "not well-formed",
    ),
    "labels that are shifted": (
        "34 look",
        changed("34 look", ("{label}</figcaption>", "{label + 1}</figcaption>")),
        "right",
        "The caption of figure 0",
    ),
    "an exponential that overflows": (
        "34 loops",
        changed("34 loops", ("most = max(z)", "most = 0.0")),
        "right",
        "OverflowError",
    ),
    "a sum in place of the mean": (
        "34 loops",
        changed("34 loops", (" - (j == label)) / n", " - (j == label))")),
        "right",
        "is wrong",
    ),
    "a training that stands still": (
        "34 arrays",
        changed("34 arrays", ("p -= 0.3", "p -= 0.0")),
        "right",
        "of 128 other images are recognised, not 75%",
    ),
    "no slope of tanh": (
        "34 arrays",
        changed("34 arrays", (" * (1 - a * a)", "")),
        "right",
        "the gradient is wrong",
    ),
    "a header that does more": (
        "34 c",
        "#include <thread>\ndouble step(double*, const double*, const int*, int, int, int, double)"
        " { return 0; }\n",
        "imports nothing but math.h, stdlib.h, string.h",
        "uses thread",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_fails_at_its_stage(name: str, tmp_path: Path) -> None:
    title, source, stage, words = WRONG[name]
    result = graded(tmp_path, title, source)
    assert result.stage == stage, result.words
    assert words in result.words


@needs_compiler
def test_c_that_is_wrong(tmp_path: Path) -> None:
    for pair, stage, words in (
        (("p[i] -= rate", "p[i] += rate"), "right", "-rate times the gradient"),
        (("i < size; i++", "i <= size; i++"), "sanitize", "heap-buffer-overflow"),
        (("free(g)", "free(h)"), "compile", "g++ does not compile"),
        (("free(g);", "exit(3);"), "right", "exit code 3"),
    ):
        result = graded(tmp_path, "34 c", changed("34 c", pair))
        assert result.stage == stage, result.words
        assert words in result.words


@needs_compiler
def test_c_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_code, "SECONDS", 0.5)
    path = tmp_path / "f.c"
    path.write_text("int f(volatile int x) { while (x) {} return 0; }\n")
    main = "int f(volatile int);\nint main() { return f(1); }\n"
    stage, words, _ = c_code.run(path, main, b"")
    assert stage == "right" and "has not ended" in words


def test_c_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    one = EXERCISES["34 c"]
    result = grade(one, one.solution)
    assert result.stage == "compile" and "g++ was not found" in result.words


def test_kernels_that_keep_the_rules_must_also_learn() -> None:
    """The chapter's judge trains with the kernels; these leave the parameters as they are."""
    learn = judge.function(EXERCISES["34 kernels"].solution.parent, "kernels")

    def still(*, p: Array, q: Array, **rest: object) -> None:
        q[:] = p

    stage, words = learn(still)
    assert stage == "right" and "are recognised, not 70%" in words


def test_keys_of_another_kind_are_refused(tmp_path: Path) -> None:
    row = {
        "name": "f", "goal": "", "imports": ["math"], "hints": [], "fails": "right", "launch": [],
    }  # fmt: skip
    files = exercise.Files(tmp_path, "f", "f.py", '"""F."""\n', tmp_path / "f.py")
    with pytest.raises(weft.ArgumentError, match="no such key"):
        exercise.read("f", row, files)
    del row["launch"]
    one: Exercise = exercise.read("f", row, files)
    assert isinstance(one, JudgedExercise) and one.rules == ("imports nothing but math",)
    assert not one.gpu and not one.by
    assert one.text == '"""F."""\n\n# Rules:\n#   imports nothing but math\n'
