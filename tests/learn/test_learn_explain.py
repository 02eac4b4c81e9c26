"""Explanations of planted mistakes: the kind, the thread, the line, and the words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from weft.cli import app
from weft.learn import chapter, messages, puzzle
from weft.learn.exercise import Exercise
from weft.learn.explain import division, kinds
from weft.learn.explain.mistakes import explain

pytestmark = pytest.mark.sim

EXERCISES: dict[str, Exercise] = {
    **{e.title: e for c in chapter.chapters() for e in c.exercises},
    **{a.title: a for p in puzzle.puzzles() for a in p.answers.values()},
}
ADD = "__global__ void add(const float* a, const float* b, float* c, int n) {\n"
INDEX = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"


class Planted(NamedTuple):
    """A mistake in an answer: the exercise, its source, and what the explanation says."""

    title: str
    source: str
    kind: kinds.Kind
    happened: str
    where: str


def solved(title: str, old: str, new: str) -> str:
    """The solution of an exercise with one change."""
    text = EXERCISES[title].solution.read_text("utf-8")
    assert old in text
    return text.replace(old, new)


PLANTED = {
    "a bound that is one too small": Planted(
        "02 guard", f"{ADD}{INDEX}  if (i < n - 1) c[i] = a[i] + b[i];\n}}\n", kinds.BOUND,
        "For n=1000, 1 of 1000 elements is wrong.", "no thread writes c[999]",
    ),
    "a bound that is one too large": Planted(
        "02 guard", f"{ADD}{INDEX}  if (i <= n) c[i] = a[i] + b[i];\n}}\n", kinds.OUT_OF_BOUNDS,
        "out-of-bounds read", "block (3, 0, 0), thread (232, 0, 0)",
    ),
    "a neighbour's element": Planted(
        "02 guard", f"{ADD}{INDEX}  int k = (i + 1) % n;\n  if (i < n) c[i] = a[k] + b[k];\n}}\n",
        kinds.SHIFTED, "elements are wrong", "c[0] is written by block (0, 0, 0), thread (0, 0, 0)",
    ),
    "a missing barrier": Planted(
        "05 reverse", solved("05 reverse", "__syncthreads();", ""), kinds.BARRIER,
        "elements are wrong", "read by block (0, 0, 0), thread (128, 0, 0)",
    ),
    "a race": Planted(
        "06 count",
        "__global__ void histogram(const unsigned char* x, int* counts, int n) {\n"
        f"{INDEX}  if (i < n) counts[x[i]] += 1;\n}}\n",
        kinds.RACE, "elements are wrong", "counts[x[i]] += 1;",
    ),
    "exchanged rows and columns": Planted(
        "transpose, CUDA C++", solved("transpose, CUDA C++", "y[c * h + r]", "y[r * w + c]"),
        kinds.TRANSPOSED, "elements are wrong", "y[r * w + c] = x[r * w + c];",
    ),
    "addresses that lie apart": Planted(
        "04 strip", EXERCISES["04 strip"].text, kinds.UNCOALESCED,
        "load sectors per request is 32", "line 12: if (i < n) y[i] = 3 * x[i];",
    ),
    "a division of integers": Planted(
        "05 blur", solved("05 blur", "/ 7", "* (1 / 7)"), kinds.DIVISION,
        "elements are wrong", "1 / 7",
    ),
    "an output that is never set": Planted(
        "axis_sum, CUDA C++",
        "__global__ void axis_sum(const float* x, float* y, int w) {\n"
        "  int r = blockIdx.x, c = threadIdx.x;\n"
        "  if (c < w) atomicAdd(&y[r], x[r * w + c]);\n}\n",
        kinds.UNINITIALISED, "", "",
    ),
    "an output that is not written": Planted(
        "02 guard", f"{ADD}  int i = threadIdx.x;\n  if (i < n) c[i] = a[i] + b[i];\n}}\n",
        kinds.UNWRITTEN, "744 of 1000 elements are wrong", "no thread writes c[256]",
    ),
    "too few threads": Planted(
        "map, Numba", solved("map, Numba", "[1, n]", "[1, n // 2]"), kinds.TOO_FEW,
        "4 of 8 elements are wrong", "the launch has 4 threads",
    ),
    "one thread for all": Planted(
        "02 guard",
        f"{ADD}{INDEX}  if (i == 0)\n    for (int k = 0; k < n; k++) c[k] = a[k] + b[k];\n}}\n",
        kinds.TOO_FEW, "writing threads is 1", "",
    ),
    "a result of the host": Planted(
        "map, Numba", "from numba import cuda\n\n\ndef run(x, y, n):\n    y[:] = x + 10\n",
        kinds.HOST, "no kernel is launched", "",
    ),
    "a host that does not wait": Planted(
        "21 managed", solved("21 managed", "cudaDeviceSynchronize();", ""), kinds.WAIT,
        "the host touches memory", "sum += x[i];",
    ),
    "a program whose threads read apart": Planted(
        "26 bodies",
        solved(
            "26 bodies", "if (i < bodies->count) bodies->x[i] += bodies->v[i];",
            # A prime that does not divide n, up to 3,000: each body is moved once.
            "int n = bodies->count, step = n % 7 ? 7 : n % 11 ? 11 : n % 13 ? 13 : 17;\n"
            "    int k = i * step % n;\n"
            "    if (i < n) bodies->x[k] += bodies->v[k];",
        ),
        kinds.UNCOALESCED, "load sectors per request is", "",
    ),
    "a library that does the work": Planted(
        "33 value", "import torch\n\nValue = torch.tensor\n", kinds.IMPORT, "uses torch", "",
    ),
    "a semicolon": Planted(
        "02 guard", f"{ADD}{INDEX.replace(';', '')}}}\n", kinds.COMPILE, "expected a \";\"", "",
    ),
    "another formula": Planted(
        "02 guard", f"{ADD}{INDEX}  if (i < n) c[i] = a[i] - b[i] * b[i];\n}}\n", kinds.RESULT,
        "of 1000 elements are wrong", "c[0] is written by block (0, 0, 0), thread (0, 0, 0)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_explained(name: str, tmp_path: Path) -> None:
    planted = PLANTED[name]
    one = EXERCISES[planted.title]
    path = tmp_path / one.file
    path.write_text(planted.source, "utf-8")
    found = explain(one, path)
    assert found.name == planted.kind.name, found
    assert planted.happened in found.happened, found.happened
    assert planted.where in "\n".join(found.where), found.where
    # The words around the parts that are filled in.
    assert found.cause.startswith(planted.kind.cause.partition("{")[0])
    assert found.question.endswith(planted.kind.question.rpartition("}")[2])
    assert "{" not in found.cause + found.question and found.question.endswith("?")
    assert str(one.solution.read_text("utf-8")) not in str(found)


def test_the_verb(tmp_path: Path) -> None:
    def learn(*words: str) -> str:
        return CliRunner().invoke(app, ["learn", *words, "--in", str(tmp_path)]).output

    assert "there is no file to explain yet" in learn("explain", "02/guard")
    assert "needs the number of a chapter" in learn("explain")
    learn("start", "02")
    mine, (guard, *_) = (
        tmp_path / "ch02_first_kernel" / "exercise_guard.cu",
        chapter.find(2).exercises,
    )
    mine.write_text(PLANTED["a bound that is one too small"].source, "utf-8")
    said = learn("explain", "02/guard")
    for words in (
        "02 guard: off by one",
        "What happened  For n=1000",
        "c[999] is 0, expected",
        "Where          no thread",
        "Likely cause   A bound",
        "Ask yourself   For an",
    ):
        assert words in said, said
    german = json.loads(learn("explain", "02/guard", "--language", "de", "--json"))
    assert german["happened"] == "Für n=1000 ist 1 von 1000 Elementen falsch."
    assert german["question"].startswith("In einem Array mit n Elementen")
    assert german["elements"][0]["element"] == "c[999]"
    mine.write_text(guard.solution.read_text("utf-8"), "utf-8")
    assert "✓ 02 guard: right" in learn("explain", "02/guard")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("y[i] = 1 / 2 * x[i];", True),
        ("float mean = sum / n;", True),
        ("y[i] = x[i] * (i / n);", True),
        ("y[i] = x[i / 2];", False),
        ("y[i] = 4 / 2 * x[i];", False),
        ("y[i] = 1.0f / 2 * x[i];", False),
        ("y[i] = x[i] / 2;", False),
        ("// y[i] = 1 / 2;", False),
        ("int middle = n / 2;", False),
    ],
)
def test_a_division_of_integers_is_seen(line: str, found: bool) -> None:
    head = "__global__ void f(const float* x, float* y, int n) {\n  int i = 0, sum = 1;\n"
    source = f"{head}  {line}\n}}"
    seen = division.find(source, ("y",))
    assert (seen is not None) == found
    assert seen is None or (seen.line == 3 and seen.text == line)


def test_every_kind_has_a_question_and_a_german_text() -> None:
    every = [kind for kind in vars(kinds).values() if isinstance(kind, kinds.Kind)]
    assert len(every) >= 18
    for kind in every:
        assert kind.question.endswith("?")
        for words in (kind.cause, kind.question):
            assert messages.translated(words, "de") != words
            # No row matches a part of a longer message.
            assert not {"the", "which", "is"} & set(
                messages.translated(words, "de").lower().split()
            )
