"""docs/api.md: current, complete, and every public name has a docstring with an example."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

import pytest

from folders import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import api_document
from api_document import Entry

pytest.importorskip("torch")  # names of weft.ops, weft.triton and weft.numba are documented, too
pytest.importorskip("triton")
pytest.importorskip("numba.cuda")

ENTRIES = [e for section in api_document.entries().values() for e in section]
WORDS = ([], ["a", "b"], ["array"], ["shape", "dtype"], ["tensors"])
"""Parameters that the summary explains."""
CLASSES = [e for e in ENTRIES if isinstance(e.value, type)]


def test_the_document_is_current() -> None:
    assert api_document.document() == (ROOT / "docs" / "api.md").read_text(), "run `make tables`"


@pytest.mark.parametrize(
    "module",
    [
        "weft",
        "weft.distributed",
        "weft.distributed.parallel",
        "weft.llm",
        "weft.ops",
        "weft.quant",
        "weft.sanitizer",
        "weft.sparse",
        "weft.triton",
        "weft.numba",
    ],
)
def test_every_public_name_is_described(module: str) -> None:
    public = importlib.import_module(module)
    described = {e.name for e in ENTRIES if e.module == module}
    modules = {n for n in public.__all__ if inspect.ismodule(getattr(public, n))}
    assert described == set(public.__all__) - modules


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.title)
def test_docstring_with_an_example(entry: Entry) -> None:
    summary = entry.doc.partition("\n\n")[0]
    assert summary.endswith("."), summary
    code, _ = api_document.example(entry.doc)
    assert "weft" in code or "module" in code or entry.name.lower() in code, entry.doc


@pytest.mark.parametrize("entry", CLASSES, ids=lambda e: e.title)
def test_members_have_docstrings(entry: Entry) -> None:
    bare = [name for name, value in api_document.members(entry.value) if not value.__doc__]
    assert bare == []


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e not in CLASSES], ids=lambda e: e.title)
def test_parameters_are_described(entry: Entry) -> None:
    described = api_document.fields(entry.doc)
    taken: list[Any] = list(inspect.signature(entry.value).parameters)
    if taken not in ([], ["a", "b"], ["array"], ["shape", "dtype"], ["tensors"]):  # said in words
        assert [
            name for name in taken if name not in described and f"`{name}`" not in entry.doc
        ] == []
