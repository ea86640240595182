"""The audit decides as its rule says: the short cuts by sizes, and the first look by a ridge, change nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from dpsql.guard import audit
from dpsql.guard.audit import Audit
from dpsql.guard.cells import HASH_BITS, Keys, cells
from dpsql.guard.history import BlockQuestion
from dpsql.guard.leaving_out import Policy

POLICY = Policy(20, 3.0)
ANSWERS, PAIRS, WATCHED = 20, 8, 16
"""As many answers, pairs and watched vectors are looked at here, so that the oldest go."""
Answer = tuple[frozenset[int], float]


@pytest.fixture(autouse=True)
def few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_ANSWERS", ANSWERS)
    monkeypatch.setattr(audit, "MOST_PAIRS", PAIRS)
    monkeypatch.setattr(audit, "MOST_WATCHED", WATCHED)


def vectors(cell: frozenset[int], others: Sequence[frozenset[int]]) -> Iterator[frozenset[int]]:
    """Vectors of few that the rule watches: what two leave of each other or have in common, and what parts leave of a whole."""
    latest = sorted(others[-PAIRS:], key=len, reverse=True)
    found = []
    for whole in [cell, *(other for other in latest if cell <= other)]:
        rest = whole
        for part in [cell, *latest]:
            rest = rest - part if len(part) < len(whole) and part <= rest else rest
        found.append(rest)
    for other in latest:
        found += [cell - other, other - cell, cell & other]
    yield from (vector for vector in found if vector and POLICY.is_few(len(vector)))


def is_exposed(answers: Sequence[Answer]) -> bool:
    """True if a watched vector is in the span of all answers, and known exactly enough."""
    watched: list[frozenset[int]] = []
    for i, (cell, _) in enumerate(answers):
        watched = [*watched, *vectors(cell, [one for one, _ in answers[:i]][-ANSWERS:])][-WATCHED:]
    kept = answers[-ANSWERS:]
    gram = np.array([[len(a & b) for a, _ in kept] for b, _ in kept], dtype=np.float64)
    for vector in watched:
        common = np.array([len(vector & cell) for cell, _ in kept], dtype=np.float64)
        combined = np.linalg.lstsq(gram, common, rcond=None)[0]
        known = float(np.sqrt(sum((w * spread) ** 2 for w, (_, spread) in zip(combined, kept, strict=True))))
        if len(vector) - combined @ common <= 1e-3 * len(vector) and known < audit.SIGMA * POLICY.k:
            return True
    return False


def asked(chance: random.Random, known: list[Keys]) -> BlockQuestion:
    """A block of one or a few cells, some of them an earlier one without a few units or with other values of some."""
    found = []
    for _ in range(chance.choice([1, 1, 2])):
        keys = chance.choice(known).copy()
        left = chance.choice([0, 0, 3, 6, 40, 90])
        keys = np.delete(keys, chance.sample(range(len(keys)), min(left, len(keys) - 1)))
        if chance.random() < 0.2:
            keys[:5] ^= np.uint32(3)
        if chance.random() < 0.3 and len(keys) > 95:
            known.append(keys)
        found.append((chance.choice(["adds", "adds", "max of x"]), keys))
    return BlockQuestion(cells(found), chance.choice([0.5, 6.0, 60.0]), 100, len(found))


def keys_of(low: int, high: int) -> Keys:
    return (np.arange(low, high, dtype=np.uint32) << np.uint32(HASH_BITS)) | np.uint32(1)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.few(6)
def test_random_histories_are_decided_by_the_rule(seed: int) -> None:
    chance, found, spaces = random.Random(seed), Audit(POLICY), dict[str, list[Answer]]()
    known, decided = [keys_of(0, 300), keys_of(0, 150), keys_of(150, 300), keys_of(100, 300)], set()
    for _ in range(40):
        now = asked(chance, known)
        more = {kind: list(answers) for kind, answers in spaces.items()}
        for place, kind in enumerate(now.cells.kinds):
            more.setdefault(kind, []).append((frozenset(now.cells.load(place).tolist()), now.spread))
        refused = bool(found.check([now]))
        assert refused == any(is_exposed(more[kind]) for kind in set(now.cells.kinds))
        decided.add(refused)
        if not refused or chance.random() < 0.2:
            found.add(now)
            spaces = more
    assert decided == {False, True}


@pytest.mark.parametrize("seed", range(12))
def test_a_history_that_is_read_at_once_is_that_which_came_one_by_one(seed: int) -> None:
    """The same is watched and known of both; of the first, what came long ago is not loaded."""
    chance, known = random.Random(seed), [keys_of(0, 300), keys_of(0, 150), keys_of(150, 300), keys_of(100, 300)]
    loaded = set[int]()

    def told(one: BlockQuestion, number: int) -> BlockQuestion:
        plain = one.cells.load
        return replace(one, cells=replace(one.cells, load=lambda at: (loaded.add(number), plain(at))[1]))  # type: ignore[func-returns-value]

    history = [asked(chance, known) for _ in range(chance.choice([5, 150]))]
    slow, at_once = Audit(POLICY), Audit(POLICY)
    for number, one in enumerate(history):
        slow.add(one)
        for space in slow._spaces.values():
            space.settle()
        at_once.add(told(one, number))
    for space in at_once._spaces.values():
        space.settle()
    for kind, space in slow._spaces.items():
        other = at_once._spaces[kind]
        for ones, others in ((space.cells, other.cells), (space.watched, other.watched)):
            assert [keys.tobytes() for keys in ones] == [keys.tobytes() for keys in others]
        assert space.spreads == other.spreads
        assert np.array_equal(space.gram, other.gram) and np.array_equal(space.common, other.common)
    assert len(history) < 150 or 0 not in loaded
    now = [asked(chance, known) for _ in range(4)]
    assert [bool(slow.check([one])) for one in now] == [bool(at_once.check([one])) for one in now]
