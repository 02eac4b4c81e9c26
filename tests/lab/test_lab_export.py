"""`weft lab export`: pages that need no server, with source, results, facts, pictures, times."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft.lab.exporting import export
from weft.lab.process import LabWorker

pytestmark = pytest.mark.sim
NAMES = ["example:divergent", "example:out_of_bounds", "example:double_numba"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("site") / "pages"
    worker = LabWorker(limit=60, memory=4 << 30)
    export.export(where, list(export.jobs(NAMES)), worker, device="sim:h200", gpus=["h200", "a100"])
    worker.close()
    return where


def test_every_page_has_all_that_it_needs(folder: Path) -> None:
    pages = sorted(path.name for path in folder.iterdir())
    assert pages == ["example_divergent.html", "example_double_numba.html",
                     "example_out_of_bounds.html", "index.html"]  # fmt: skip
    for path in folder.iterdir():
        text = path.read_text()
        fetched = re.findall(r"(?:src|href)=[\"']?([^\"'> ]+)", text)
        assert all(address in pages or address.startswith("#") for address in fetched)
        assert "<link" not in text and "import(" not in text and "fetch(" not in text


def test_a_page_has_source_results_facts_and_times(folder: Path) -> None:
    text = (folder / "example_divergent.html").read_text()
    for words in ("__global__", "Results", "y</b> f32[1000]", "Predicted time", "a100: bound by",
                  "Source and PTX", "Roofline", "Addresses of a warp", "sizes",
                  "branch&lt;&lt;&lt;", "where warps spend their time"):  # fmt: skip
        assert words in text, words
    assert "numba" in (folder / "example_double_numba.html").read_text()


def test_a_kernel_that_fails_shows_its_error(folder: Path) -> None:
    text = (folder / "example_out_of_bounds.html").read_text()
    assert 'class="failure"' in text and "Roofline" not in text
    index = (folder / "index.html").read_text()
    assert "branch: ~" in index and "out of" in index.lower()


def test_a_folder_with_files_and_unknown_names_are_refused(folder: Path) -> None:
    worker = LabWorker(limit=60, memory=4 << 30)
    with pytest.raises(weft.ArgumentError, match="not empty"):
        export.export(folder, [], worker, device="sim:h200", gpus=["h200"])
    worker.close()
    with pytest.raises(weft.ArgumentError, match="nothing of this name"):
        list(export.jobs(["example:nothing"]))


def invoke(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "weft", *words], capture_output=True, text=True)


def test_the_command_writes_pages(tmp_path: Path) -> None:
    where = tmp_path / "site"
    done = invoke("lab", "export", str(where), "example:new", "--json")
    assert json.loads(done.stdout)["pages"] == [
        str(where / name) for name in ("index.html", "example_new.html")
    ]
    refused = invoke("lab", "export", str(where), "example:new")
    assert refused.returncode == 1 and "not empty" in refused.stderr
