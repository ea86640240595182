"""Approved data versions: random ids, found again by content or by signature."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dpsql.accounting import Ledger, Versions
from dpsql.core.errors import InternalError


def test_nothing_is_approved_at_first(ledger: Ledger) -> None:
    versions = Versions(ledger)
    assert versions.latest() is None
    assert versions.by_signature("s") is versions.by_content("c") is versions.facts("v") is None


def test_an_approval_is_found_again(ledger: Ledger, path: Path) -> None:
    version = Versions(ledger).approve("content", "signature", '{"rows": 5}', {})
    ledger.close()
    again = Versions(Ledger.open(path, "example"))
    assert again.by_content("content") == again.by_signature("signature") == version
    assert again.latest() == (version, '{"rows": 5}')
    assert again.facts(version) == '{"rows": 5}'


def test_ids_say_nothing_about_the_content() -> None:
    first, second = (Versions(Ledger.open(":memory:", "example")).approve("c", "s", "f", {}) for _ in range(2))
    assert first != second and len(first) == len(second) == 32


def test_content_that_comes_back_keeps_its_id(ledger: Ledger) -> None:
    versions = Versions(ledger)
    old = versions.approve("old", "s1", "f1", {})
    new = versions.approve("new", "s2", "f2", {})
    assert old != new and versions.latest() == (new, "f2")
    assert versions.approve("old", "s3", "f3", {}) == old
    assert versions.latest() == (old, "f1")
    versions.record_facts(old, "f4")
    assert versions.latest() == (old, "f4") and versions.facts(new) == "f2"
    assert [versions.by_signature(s) for s in ("s1", "s2", "s3")] == [old, new, old]
    assert versions.approve("new", "s2", "f2", {}) == new and versions.latest() == (new, "f2")


def test_a_signature_means_what_was_recorded_last(ledger: Ledger) -> None:
    versions = Versions(ledger)
    old, new = versions.approve("old", "s1", "f1", {}), versions.approve("new", "s2", "f2", {})
    versions.record_signature(new, "s1")
    versions.record_signature(old, "s4")
    assert [versions.by_signature(s) for s in ("s1", "s2", "s4")] == [new, new, old]
    assert versions.latest() == (new, "f2")


def test_a_signature_needs_an_approved_version(ledger: Ledger) -> None:
    with pytest.raises(InternalError) as caught:
        Versions(ledger).record_signature("unknown", "s")
    assert caught.value.__context__ is None
    assert Versions(ledger).by_signature("s") is None


def test_two_checks_at_once_agree(ledger: Ledger) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(Versions(ledger).approve("content", "s", "f", {})))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1
