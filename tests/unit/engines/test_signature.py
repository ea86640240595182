"""Signatures: what is noticed, and what the keyed texts depend on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.engines.signature import TICK_NS, Signature, content

CHANGES: dict[str, Callable[[Path], object]] = {
    "longer": lambda p: p.write_bytes(b"abcd"),
    "other bytes, same length and time": lambda p: (p.write_bytes(b"xyz"), os.utime(p, ns=(1, 1))),
    "replaced by an equal file": lambda p: (p.with_name("n").write_bytes(b"abc"), os.replace(p.with_name("n"), p)),
    "gone": lambda p: p.unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_noticed(tmp_path: Path, change: Callable[[Path], object]) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"abc")
    os.utime(file, ns=(1, 1))
    signature = Signature.take([file])
    assert signature.holds()
    change(file)
    assert not signature.holds()


def whole(signature: Signature) -> bytes:
    return b"".join(signature.digests().values())


def test_reading_is_no_change(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"abc")
    signature = Signature.take([file])
    time.sleep(0.05)
    assert file.read_bytes() == b"abc" and signature.holds()


def test_a_fresh_file_is_looked_at_after_its_tick(tmp_path: Path) -> None:
    """Two writes within one tick of the clock would look the same."""
    file = tmp_path / "f"
    file.write_bytes(b"abc")
    Signature.take([file])
    assert time.time_ns() - file.stat().st_ctime_ns >= TICK_NS


def test_a_missing_file_is_missing_until_it_comes(tmp_path: Path) -> None:
    signature = Signature.take([tmp_path / "f"])
    assert signature.holds()
    (tmp_path / "f").write_bytes(b"")
    assert not signature.holds()


def test_contents_do_not_depend_on_the_place(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_bytes(b"abc" * 1_000_000)
    one, two = (Signature.take([tmp_path / folder / "f"]) for folder in ("a", "b"))
    key = b"k" * 32
    assert content(whole(one), key, "s") == content(whole(two), key, "s")
    assert one.keyed(key, "s") != two.keyed(key, "s")
    texts = {content(whole(one), *by) for by in ((key, "s"), (key, "t"), (b"l" * 32, "s"))}
    assert len({*texts, one.keyed(key, "s")}) == 4
    assert len({one.keyed(key, "s"), one.keyed(key, "t"), one.keyed(b"l" * 32, "s")}) == 3


def test_the_border_between_files_counts(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abcd"]
    for path, held in zip(paths, (b"12", b"3", b"1", b"23"), strict=True):
        path.write_bytes(held)
    first, second = Signature.take(paths[:2]), Signature.take(paths[2:])
    assert content(whole(first), b"k", "") != content(whole(second), b"k", "")
