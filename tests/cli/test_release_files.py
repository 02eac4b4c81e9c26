"""The files of a release agree with pyproject.toml: workflows, citation, recipe, containers."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import weft
from folders import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import install_sizes

yaml = pytest.importorskip("yaml")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML = [
    *WORKFLOWS,
    *sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "CITATION.cff",
    ROOT / "conda" / "recipe.yaml",
]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in read(path)["jobs"].values() for step in job["steps"]]


def test_the_pythons_of_pyproject() -> None:
    assert PYTHONS == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_can_be_read(path: Path) -> None:
    assert isinstance(read(path), dict)


def test_the_tests_run_on_every_python_and_on_both_processors() -> None:
    matrix = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["tests"]["strategy"][
        "matrix"
    ]
    assert matrix["python-version"] == PYTHONS
    assert matrix["os"] == ["ubuntu-latest", "ubuntu-24.04-arm"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_complete(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}  # more is given to single jobs
    for job in workflow["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= job.keys()
    for step in steps(path):
        assert len({"run", "uses"} & step.keys()) == 1
        version = step.get("with", {}).get("python-version", PYTHONS[0])
        assert version in PYTHONS or version == "${{ matrix.python-version }}"
        assert "@" in step.get("uses", "@")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_is_there(path: Path) -> None:
    targets = re.findall(r"^([\w./$()-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for command in (step.get("run", "") for step in steps(path)):
        made = re.findall(r"^make (\S+)", command)
        assert set(made) <= {*targets, ".venv/.ready"}
        files = re.findall(r"\b(?:scripts|tests)/[\w/]+\.py", command)
        assert [file for file in files if not (ROOT / file).is_file()] == []


def test_releases_are_published_without_a_password() -> None:
    release = read(ROOT / ".github" / "workflows" / "release.yml")
    assert release[True]["push"]["tags"] == ["v*"]  # YAML reads `on` as true
    publish = release["jobs"]["publish"]
    assert publish["permissions"]["id-token"] == "write"
    assert publish["environment"]["url"].endswith(f"/{PROJECT['name']}")
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()


def test_the_citation() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert (citation["version"], citation["license"]) == (weft.__version__, PROJECT["license"])
    assert citation["keywords"] == PROJECT["keywords"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


NAMES_OF_CONDA = {
    "nvidia-cuda-nvrtc": "cuda-nvrtc-dev",
    "nvidia-cuda-runtime": "cuda-cudart-dev",
    "nvidia-cuda-crt": "cuda-crt",
    "nvidia-cuda-cccl": "cuda-cccl",
}


def test_the_recipe_of_conda() -> None:
    recipe = read(ROOT / "conda" / "recipe.yaml")
    assert recipe["context"] == {"name": PROJECT["name"], "version": weft.__version__}
    needed = [re.fullmatch(r"([\w-]+)(.*)", one).groups() for one in PROJECT["dependencies"]]
    expected = [f"{NAMES_OF_CONDA.get(name, name)} {bounds}" for name, bounds in needed]
    assert recipe["requirements"]["run"] == ["__linux", "python >=3.11", *expected]
    points = [f"{name} = {place}" for name, place in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == points


def test_containers_have_a_python_of_the_project() -> None:
    image = re.search(r"^FROM python:(3\.\d+)-slim$", (ROOT / "Dockerfile").read_text(), re.M)
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert {image[1], container["image"].rpartition(":")[2]} <= set(PYTHONS)


def test_hooks_use_the_tools_of_dev() -> None:
    (own,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in own["hooks"]}
    assert tools == {"ruff", "clang-format", "mypy"}
    assert tools <= {re.match(r"[\w-]+", one)[0] for one in PROJECT["optional-dependencies"]["dev"]}


def test_every_dependency_has_a_reason() -> None:
    names = {re.match(r"[\w-]+", one)[0] for one in PROJECT["dependencies"]}
    assert install_sizes.NEEDED.keys() == names
    recorded = json.loads(install_sizes.RECORD.read_text())["packages"]
    assert names <= {one["name"] for one in recorded}


def test_the_security_policy_states_what_the_lab_does() -> None:
    policy = (ROOT / "SECURITY.md").read_text()
    served = (ROOT / "src" / "weft" / "lab").rglob("*.py")
    assert "127.0.0.1" in policy and any("127.0.0.1" in path.read_text() for path in served)
    assert "not a sandbox" in policy
