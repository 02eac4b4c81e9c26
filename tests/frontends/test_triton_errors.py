"""Errors of Triton kernels and around them: lines, memory not given, releases."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import draw

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

import weft  # noqa: E402
import weft.triton  # noqa: E402
from triton_kernels import features  # noqa: E402
from weft import installation  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
weft.triton.install(alone=True)  # also where there is a GPU


def test_out_of_bounds_names_the_line() -> None:
    with pytest.raises(weft.IllegalAddress, match="out-of-bounds read") as caught:
        features.past_the_end[(4,)](torch.zeros(1000), torch.zeros(1000), 1000, BLOCK=256)
    text = str(caught.value)
    assert "features.py" in text and "`v = tl.load(x + i)`" in text
    assert "'x' (4000 bytes)" in text


def test_lines_are_those_of_a_file_that_has_moved(tmp_path: Path) -> None:
    """Triton's cache gives the same code for the same text elsewhere."""
    text = (
        "import triton, triton.language as tl\n@triton.jit\ndef k(x):\n    tl.store(x + 100, 1.0)\n"
    )
    for folder in ("one", "two"):
        path = tmp_path / folder / "moved.py"
        path.parent.mkdir()
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("moved", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with pytest.raises(weft.IllegalAddress) as caught:
            module.k[(1,)](torch.zeros(4))
        assert caught.value.line.startswith(f"{path}:4  `tl.store(x + 100, 1.0)`")
        found = weft.profile(weft.kernel(module.k)[(1,)], torch.zeros(101))
        assert found.launch.registers, "what ptxas said stays with the kernel"


def test_next_launch_after_an_error_is_fine() -> None:
    with pytest.raises(weft.IllegalAddress):
        features.past_the_end[(4,)](torch.zeros(1000), torch.zeros(1000), 1000, BLOCK=256)
    x, out = draw.seeded(1).uniform(1024), torch.zeros(1024)
    features.past_the_end[(4,)](x, out, 1024, BLOCK=256)
    assert torch.equal(out, x)


def test_addresses_given_as_numbers() -> None:
    """A table of pointers, as grouped products take it."""
    x, out = draw.seeded(1).uniform(8), torch.zeros(8)
    table = torch.tensor([x.data_ptr()])
    with pytest.raises(weft.IllegalAddress):
        features.through_a_table[(1,)](table, out, N=8)
    weft.triton.allow(x)
    features.through_a_table[(1,)](table, out, N=8)
    assert torch.equal(out, x)


def test_other_releases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "__version__", "2.1.0")
    with pytest.raises(weft.MissingDependency, match="not supported") as caught:
        weft.triton.install()
    assert caught.value.got == "2.1.0" and "3.9" in caught.value.next


def test_without_triton_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "triton" else found(name)
    )
    with pytest.raises(weft.MissingDependency, match="needs triton") as caught:
        weft.triton.install()
    assert caught.value.next == installation.pip_install("triton")
