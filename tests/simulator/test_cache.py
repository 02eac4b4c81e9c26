"""The on-disk cache: whole entries or none, whatever happens around it."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from weft import cache
from weft.device import version
from weft.errors import CacheError

KEY = cache.key("some", "entry")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def only_file(root: Path) -> Path:
    (path,) = [p for p in root.glob("*/*/*") if p.is_file()]
    return path


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 4096], ids=len)
def test_round_trip(data: bytes) -> None:
    assert cache.get("ptx", KEY) is None
    assert cache.put("ptx", KEY, data)
    assert cache.get("ptx", KEY) == data
    assert cache.get("code", KEY) is None


def test_last_write_wins() -> None:
    cache.put("ptx", KEY, b"old")
    cache.put("ptx", KEY, b"new")
    assert cache.get("ptx", KEY) == b"new"


# each pair must give two keys
DISTINCT = [
    (("1",), (1,)),
    (("ab",), ("a", "b")),
    (("a", "b"), (("a", "b"),)),
    ((1,), (True,)),
    ((1,), (1.0,)),
    ((b"a",), ("a",)),
    ((None,), ("None",)),
    (({"a": 1},), ({"a": 2},)),
    (((), ("x",)), (("x",), ())),
]


@pytest.mark.parametrize("left, right", DISTINCT)
def test_keys_of_different_parts_differ(
    left: tuple[object, ...], right: tuple[object, ...]
) -> None:
    assert cache.key(*left) != cache.key(*right)


def test_key_ignores_the_order_of_a_mapping() -> None:
    assert cache.key({"a": 1, "b": 2}) == cache.key({"b": 2, "a": 1})


def test_key_refuses_what_has_no_stable_bytes() -> None:
    with pytest.raises(CacheError, match="no stable bytes"):
        cache.key(object())


@pytest.mark.parametrize("kind, key", [("../x", KEY), ("ptx", "../../etc/passwd"), ("", KEY)])
def test_names_stay_inside_the_cache(kind: str, key: str) -> None:
    with pytest.raises(CacheError, match="not a name of a cache entry"):
        cache.put(kind, key, b"")


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: stored[:-1],
        lambda stored: stored[:10],
        lambda stored: b"",
        lambda stored: stored[:40] + b"?" + stored[41:],
        lambda stored: stored + b"more",
    ],
    ids=["cut", "cut in the checksum", "emptied", "one byte changed", "grown"],
)
def test_damaged_entry_is_dropped(damage: object, root: Path) -> None:
    cache.put("ptx", KEY, b"payload " * 100)
    path = only_file(root)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert cache.get("ptx", KEY) is None
    assert not path.exists()


def hammer(seed: int) -> int:
    """Write and read the same few entries; how many reads were neither whole nor a miss."""
    wrong = 0
    for i in range(100):
        key = cache.key("shared", i % 4)
        cache.put("ptx", key, bytes([seed]) * (50_000 + seed))
        found = cache.get("ptx", key)
        wrong += found is not None and found != bytes([found[0]]) * (50_000 + found[0])
        if i % 25 == seed:
            cache.prune(100_000)
    return wrong


def test_many_processes_share_one_cache(root: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert pool.map(hammer, range(4)) == [0] * 4
    assert not list(root.rglob("*.tmp"))


def test_unwritable_directory_turns_the_cache_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert not cache.put("ptx", KEY, b"data")
    assert cache.get("ptx", KEY) is None
    assert "Not a directory" in cache.status().trouble
    assert cache.clear() == 0


def test_status_and_clear() -> None:
    assert cache.status().trouble == ""
    cache.put("ptx", cache.key(1), b"a" * 10)
    cache.put("ptx", cache.key(2), b"b" * 20)
    cache.put("code", cache.key(1), b"c" * 30)
    status = cache.status()
    assert (status.entries, status.kinds["ptx"].entries) == (3, 2)
    assert status.bytes > 60
    assert cache.clear("code") == 1
    assert cache.clear() == 2
    assert cache.status().entries == 0


def test_prune_removes_what_was_used_longest_ago(root: Path) -> None:
    for age in range(4):
        cache.put("ptx", cache.key(age), b"x" * 1000)
        (path,) = (root / "ptx").rglob(cache.key(age))
        os.utime(path, (time.time() - 7200 * age,) * 2)
    assert cache.get("ptx", cache.key(3)) is not None  # reading makes it the newest
    assert cache.prune(2 * 1032) == 2
    kept = [age for age in range(4) if cache.get("ptx", cache.key(age)) is not None]
    assert kept == [0, 3]


def test_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_CACHE_DIR")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.directory() == Path("/somewhere/weft")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.directory() == Path.home() / ".cache" / "weft"


def test_the_generators_digest_follows_contents_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ir" / "builder.py"
    for name in ("ir", "ptx", "device"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(version, "_ROOT", str(tmp_path))
    digests = []
    for text, when in (("a = 1\n", 1), ("a = 1\n", 2), ("a = 2\n", 2)):
        file.write_text(text)
        os.utime(file, (when, when))
        digests.append(version.generator.__wrapped__())
    assert digests[0] == digests[1] != digests[2]


def test_a_process_in_which_files_were_edited_shares_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have loaded some files before and others after: no other process may run its code."""
    file = tmp_path / "ir" / "builder.py"
    for name in ("ir", "ptx", "device"):
        (tmp_path / name).mkdir()
    file.write_text("a = 1\n")
    now = time.time()
    monkeypatch.setattr(version, "_ROOT", str(tmp_path))
    monkeypatch.setattr(version, "_STARTED", now - 60)
    digests = []
    for when in (now - 90, now - 30, now + 3600):  # the last: a clock that is ahead, no edit
        os.utime(file, (when, when))
        digests.append(version.generator.__wrapped__())
    assert digests[0] == digests[2] != digests[1]
