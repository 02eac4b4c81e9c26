"""Only this user can put code into the cache: folders, links, owners, modes and forged entries."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import cache
from weft.cache import folders
from weft.device import jit

KEY = cache.key("some", "entry")
STRANGER = 65534
"""The uid that owns what another user planted."""

needs_owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no POSIX owners here")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
pytestmark = needs_owners


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "home" / "cache"))
    monkeypatch.setattr(folders, "_refused", set())
    yield tmp_path / "home" / "cache"


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077], ids="umask {:03o}".format)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def entry(root: Path) -> Path:
    (path,) = [p for p in root.glob("*/*/*") if p.is_file()]
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_every_level_is_private_whatever_the_umask(root: Path, umask: None) -> None:
    assert cache.put("sim", KEY, b"code")
    assert cache.get("sim", KEY) == b"code"
    made = [root.parent, root, root / "sim", root / "sim" / KEY[:2]]
    assert [mode(folder) for folder in made] == [0o700] * 4
    assert mode(root / "secret") == mode(entry(root)) == 0o600
    assert mode(Path(cache.folder("triton-1"))) == 0o700


# a folder on the way to an entry, what is done to it, and what the warning says
OPENED: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a parent that all may write": ("..", lambda p: p.chmod(0o777), "mode drwxrwxrwx"),
    "a parent that the group may write": ("..", lambda p: p.chmod(0o775), "mode drwxrwxr-x"),
    "the cache folder": (".", lambda p: p.chmod(0o775), "mode drwxrwxr-x"),
    "the cache folder, sticky": (".", lambda p: p.chmod(0o1777), "mode drwxrwxrwt"),
    "the folder of a kind": ("sim", lambda p: p.chmod(0o777), "mode drwxrwxrwx"),
    "the folder of an entry": (f"sim/{KEY[:2]}", lambda p: p.chmod(0o777), "mode drwxrwxrwx"),
}
GIVEN = {
    "a stranger's parent": "..",
    "a stranger's cache folder": ".",
    "a stranger's folder of a kind": "sim",
    "a stranger's folder of an entry": f"sim/{KEY[:2]}",
}
for name, where in GIVEN.items():
    OPENED[name] = (where, lambda p: os.chown(p, STRANGER, STRANGER), "belongs to another user")


@pytest.mark.parametrize("case", OPENED)
def test_a_folder_that_others_can_change_is_refused(root: Path, case: str) -> None:
    if case in GIVEN and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    where, open_it, said = OPENED[case]
    cache.put("sim", KEY, b"code")
    folder = (root / where).resolve()
    open_it(folder)
    with pytest.warns(weft.CacheWarning) as warned:
        assert cache.get("sim", KEY) is None
        assert not cache.put("sim", KEY, b"code")
        assert cache.get("sim", KEY) is None
    (text,) = [str(w.message) for w in warned]  # once, however often the cache is asked
    assert str(root) in text and f"{folder} " in text and said in text
    assert re.search(r"next: (run `chmod go-w /|set WEFT_CACHE_DIR)", text)


@pytest.mark.parametrize("folder", ["sticky/cache", "link/cache", "chain/../link/cache"])
def test_folders_that_others_cannot_change_are_used(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)  # like /tmp
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "chain").symlink_to(tmp_path / "link" / "below" / ".." / ".." / "real")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / folder))
    assert cache.put("sim", KEY, b"code") and cache.get("sim", KEY) == b"code"
    assert cache.status().trouble == ""


def test_a_link_in_circles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "a"))
    assert not cache.put("sim", KEY, b"code")
    assert "levels of symbolic links" in cache.status().trouble


@needs_root
def test_a_strangers_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    os.chown(tmp_path / "link", STRANGER, STRANGER, follow_symlinks=False)
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "link" / "cache"))
    with pytest.warns(weft.CacheWarning, match="link belongs to another user"):
        assert not cache.put("sim", KEY, b"code")
    assert not (tmp_path / "real" / "cache").exists()


def replaced_by_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def with_old_checksum(path: Path) -> None:
    path.write_bytes(hashlib.sha256(b"evil").digest() + b"evil")


def under_another_name(path: Path) -> None:
    other = cache.key("another")
    cache.put("sim", other, b"evil")
    (path.parent.parent / other[:2] / other).replace(path)


def under_another_secret(path: Path) -> None:
    cache.put("sim", KEY, b"evil")
    (path.parent.parent.parent / "secret").write_bytes(bytes(32))


# entries that weft did not write here, under this name
FORGED: dict[str, Callable[[Path], None]] = {
    "a symbolic link": replaced_by_link,
    "a valid checksum": with_old_checksum,
    "another entry moved here": under_another_name,
    "another secret": under_another_secret,
    "writable by all": lambda path: path.chmod(0o666),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path))[1],
    "a stranger's": lambda path: os.chown(path, STRANGER, STRANGER),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_entry_is_a_miss_and_heals(root: Path, case: str) -> None:
    if case == "a stranger's" and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    cache.put("sim", KEY, b"code")
    FORGED[case](entry(root))
    assert cache.get("sim", KEY) is None
    assert cache.put("sim", KEY, b"code")
    assert cache.get("sim", KEY) == b"code"


@pytest.mark.parametrize("damage", [b"", b"short", bytes(33)], ids=len)
def test_a_damaged_secret_heals(root: Path, damage: bytes) -> None:
    cache.put("sim", KEY, b"code")
    (root / "secret").write_bytes(damage)
    assert cache.get("sim", KEY) is None
    assert cache.put("sim", KEY, b"code") and cache.get("sim", KEY) == b"code"
    (root / "secret").chmod(0o644)  # others may have read it
    assert cache.get("sim", KEY) is None


def _entry(data: bytes) -> tuple[Any, bytes]:
    """The facts about a kernel, without LLVM's time, and its code."""
    size = int.from_bytes(data[:4], "little")
    return {**json.loads(data[4 : 4 + size]), "seconds": 0}, data[4 + size :]


def test_a_forged_kernel_is_compiled_again(root: Path) -> None:
    """Bytes that LLVM would end the process for, under weft's own secret."""
    source = "__global__ void k(int* y) { y[0] += 7; }"
    y = np.zeros(1, np.int32)
    weft.cuda(source).k[1, 1](y)
    (path,) = (root / "sim").glob("*/*")
    good = cache.get("sim", path.name) or b""
    for bad in (b"", b"x" * 1000, good[:-400], good[:40], b"\0\0\0\1{}" + good):
        cache.put("sim", path.name, bad)
        weft.cuda(source).k[1, 1](y)
        assert _entry(cache.get("sim", path.name) or b"") == _entry(good)
    assert y[0] == 42


@pytest.mark.parametrize("text", ["define i32 @other() { ret i32 0 }", ""])
def test_an_object_without_its_function(text: str) -> None:
    with pytest.raises(jit.BadObject, match="no function `run`"):
        jit.load_object(jit.compile_object(text))


ATTACKED = """
import os, sys, numpy as np, weft
y = np.zeros(1, np.int32)
weft.cuda("__global__ void k(int* y) { y[0] = %s; }" % sys.argv[1]).k[1, 1](y)
print(y[0])
"""


def launched(value: int, folder: Path, umask: int) -> tuple[int, str]:
    env = {**os.environ, "WEFT_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", ATTACKED, str(value)]
    done = subprocess.run(command, env=env, umask=umask, capture_output=True, text=True, check=True)
    return int(done.stdout), done.stderr


@needs_root
@pytest.mark.parametrize("umask", [0o000, 0o002], ids="umask {:03o}".format)
def test_another_user_cannot_replace_machine_code(tmp_path: Path, umask: int) -> None:
    tmp_path.chmod(0o755)
    launched(1, tmp_path / "mine", umask)
    launched(2, tmp_path / "evil", umask)
    (mine,), (evil,) = ((tmp_path / d / "sim").glob("*/*") for d in ("mine", "evil"))
    steal = f"mv {mine.parent} {mine.parent}_old && mkdir {mine.parent} && cp /dev/stdin {mine}"
    done = subprocess.run(
        ["sh", "-c", steal], input=evil.read_bytes(), user=STRANGER, group=STRANGER, check=False
    )
    assert done.returncode != 0
    assert launched(1, tmp_path / "mine", umask) == (1, "")


def write_at_once(number: int) -> bytes | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("sim", cache.key(number), bytes([number]))
        return cache.get("sim", cache.key(number))


def test_processes_that_begin_together_share_one_secret(root: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.map(write_at_once, range(8), chunksize=1)
    assert [cache.get("sim", cache.key(n)) for n in range(8)] == [bytes([n]) for n in range(8)]


def test_a_refused_folder_is_shown(root: Path) -> None:
    cache.put("sim", KEY, b"code")
    root.chmod(0o777)
    with pytest.warns(weft.CacheWarning):
        state = cache.status()
    assert state.entries == 0 and "can be written by other users" in state.trouble
    assert cache.clear() == 0 and entry(root).exists()
    private = Path(cache.folder("triton-1"))
    assert root not in private.parents and mode(private) == 0o700
