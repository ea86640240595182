"""Lower bounds on the epsilon of a mechanism, from what it put out on two neighbouring inputs.

A mechanism that promises epsilon is wrong, up to a chance of `alpha`, when the bound is above epsilon. One half of the outputs picks an
event, the other half measures its rates with exact bounds: so whatever the first half is searched for, it costs no confidence.

Source  Jagielski, Ullman, Oprea 2020, Auditing Differentially Private Machine Learning; Clopper, Pearson 1934
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

Outputs = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
MASSES = (0.02, 0.1, 0.3)
_FINE_MASSES = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
_BINS = 64
_MOST_PAIRED = 8
_DIGIT, _WORD = 4, 64  # bits
_SLIP = 1 - 1e-6
_FAR = 5.0  # standard deviations


def eps_lower(first: Outputs, second: Outputs, delta: float = 0.0, alpha: float = 1e-6) -> float:
    """The largest of six bounds ln((p - delta) / q), over two directions and three masses of the event.

    Input   independent integer outputs on D and on D'
    Output  above the true epsilon with a probability of at most 6 * alpha
    """
    pairs = ((first, second), (second, first))
    return max(_bound(a, b, mass, delta, alpha) for a, b in pairs for mass in MASSES)


def _bound(a: Outputs, b: Outputs, mass: float, delta: float, alpha: float) -> float:
    half = min(len(a), len(b)) // 2
    event = _likely_event(a[:half], b[:half], mass)
    hits = [int(np.isin(one[half:], event).sum()) for one in (a, b)]
    return _log_ratio(hits[0], len(a) - half, hits[1], len(b) - half, delta, alpha)


def _log_ratio(hits: int, trials: int, others: int, other_trials: int, delta: float, alpha: float) -> float:
    """A number that ln((p - delta) / q) is below with a probability of at most alpha, for the rates p and q of one event."""
    low = rate_above(hits, trials, alpha / 2)
    return float(np.log(max(low - delta, 1e-300) / rate_below(others, other_trials, alpha / 2)))


def _likely_event(a: Outputs, b: Outputs, mass: float) -> Outputs:
    """The outputs that look most typical of `a` rather than `b`, as many as hold `mass` of `a`."""
    values, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    in_a = np.bincount(codes[: len(a)], minlength=len(values))
    in_b = np.bincount(codes[len(a) :], minlength=len(values))
    chosen: Outputs = values[_first_of(in_a, in_b, mass)]
    return chosen


def _first_of(in_a: Codes, in_b: Codes, mass: float) -> Codes:
    """Codes in the order of how much oftener they are in `a`, as many as hold `mass` of it."""
    order = np.argsort(-(in_a + 0.5) / (in_b + 0.5), kind="stable")
    return order[: np.searchsorted(np.cumsum(in_a[order]) / max(1, in_a.sum()), mass) + 1]


# --- rates --------------------------------------------------------------------------------------------------------------


def rate_above(hits: int, trials: int, alpha: float) -> float:
    """A number that a true rate is below with a probability of at most alpha."""
    if not hits:
        return 0.0
    log_ways, at = _log_ways(trials)[hits:], np.arange(hits, trials + 1)
    low, high = 0.0, hits / trials
    # the probability of so many hits or more grows with the rate
    for _ in range(50):
        middle = (low + high) / 2
        rare = _probability(log_ways, at, trials, middle) <= alpha * _SLIP
        low, high = (middle, high) if rare else (low, middle)
    return low


def rate_below(hits: int, trials: int, alpha: float) -> float:
    """A number that a true rate is above with a probability of at most alpha."""
    return 1 - rate_above(trials - hits, trials, alpha)


@lru_cache(maxsize=16)
def _log_ways(trials: int) -> Floats:
    """The logarithms of the binomial coefficients."""
    k = np.arange(1, trials + 1)
    found: Floats = np.concatenate([[0.0], np.cumsum(np.log((trials - k + 1) / k))])
    return found


def _probability(log_ways: Floats, at: Codes, trials: int, rate: float) -> float:
    if rate <= 0:
        return 0.0
    return float(np.exp(log_ways + at * np.log(rate) + (trials - at) * np.log1p(-rate)).sum()) if rate < 1 else 1.0


# --- vectors of outputs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _View:
    """Something that is looked at of an output, as one of a few codes."""

    first: Codes
    second: Codes

    def counts(self, rows: slice) -> tuple[Codes, Codes]:
        size = int(max(self.first.max(), self.second.max())) + 1
        return np.bincount(self.first[rows], minlength=size), np.bincount(self.second[rows], minlength=size)


def eps_lower_of_vectors(
    first: Sequence[Outputs], second: Sequence[Outputs], delta: float = 0.0, alpha: float = 1e-6
) -> float:
    """The same of releases of several cells: a bound ln((p - delta) / q) for one event, which the first half picks.

    first, second  one array a cell, all of one length [releases]: whole numbers, and None where a release shows nothing
    Output         above the true epsilon with a probability of at most alpha; at least 0

    Why  what is looked at is every cell; sums and differences of two cells, each brought to its own spread, where noise that is drawn
         once for both cancels; the digits of a cell, of which noise that is coarser than what it hides leaves the last ones; and all
         cells together: the logarithms of their ratios added up, which is the best there is for independent noise
    """
    half = len(first[0]) // 2
    begin, end = slice(0, half), slice(half, None)
    views = list(_views(first, second, half))
    found = (
        (_guess(_hits(a, event), _hits(b, event), half, delta), i, swapped, event)
        for i, view in enumerate(views)
        for swapped in (False, True)
        for a, b in [view.counts(begin)[:: -1 if swapped else 1]]
        for event in (_first_of(a, b, mass) for mass in _FINE_MASSES)
    )
    _, i, swapped, event = max(found, key=lambda one: one[0])
    a, b = views[i].counts(end)[:: -1 if swapped else 1]
    return max(0.0, _log_ratio(_hits(a, event), int(a.sum()), _hits(b, event), int(b.sum()), delta, alpha))


def _hits(counts: Codes, event: Codes) -> int:
    return int(counts[event].sum())


def _guess(hits: int, others: int, trials: int, delta: float) -> float:
    """About what the bound is: to compare events by."""
    low, high = hits - _FAR * np.sqrt(hits), others + _FAR * np.sqrt(others) + _FAR**2 / 2
    return float(np.log(max(low - delta * trials, 1e-9) / high))


def _views(first: Sequence[Outputs], second: Sequence[Outputs], half: int) -> Iterator[_View]:
    numbers = [(_number(a), _number(b)) for a, b in zip(first, second, strict=True)]
    cells = [_binned(a, b, half) for a, b in numbers]
    yield from cells
    yield _together(cells, half)
    spread = [_to_spread(a, b, half) for a, b in numbers[:_MOST_PAIRED]]
    for (a, b), (c, d) in combinations(spread, 2):
        yield _binned(a - c, b - d, half)
        yield _binned(a + c, b + d, half)
    for one, other in zip(first, second, strict=True):
        yield from _digits(one, other)


def _number(values: Outputs) -> Floats:
    """As DOUBLE; what is not shown is below everything."""
    found = values.astype(np.float64)  # None becomes NaN
    return np.where(np.isnan(found), -1e300, found)


def _binned(a: Floats, b: Floats, half: int) -> _View:
    """The values themselves where there are few, else bins of about as many outputs each."""
    known = np.concatenate([a[:half], b[:half]])
    edges = np.unique(known)
    if len(edges) > _BINS:
        edges = np.unique(np.quantile(known, np.arange(1, _BINS) / _BINS, method="lower"))
    return _View(np.searchsorted(edges, a, side="right"), np.searchsorted(edges, b, side="right"))


def _together(cells: Sequence[_View], half: int) -> _View:
    ratios = []
    for cell in cells:
        in_a, in_b = cell.counts(slice(0, half))
        ratios.append(np.log((in_a + 0.5) / (in_b + 0.5)))
    first = [ratio[cell.first] for cell, ratio in zip(cells, ratios, strict=True)]
    second = [ratio[cell.second] for cell, ratio in zip(cells, ratios, strict=True)]
    return _binned(np.sum(first, axis=0), np.sum(second, axis=0), half)


def _to_spread(a: Floats, b: Floats, half: int) -> tuple[Floats, Floats]:
    low, middle, high = np.quantile(np.concatenate([a[:half], b[:half]]), (0.25, 0.5, 0.75))
    width = high - low or 1.0
    return (a - middle) / width, (b - middle) / width


def _digits(a: Outputs, b: Outputs) -> Iterator[_View]:
    """The hexadecimal digits of whole numbers."""
    if any(one.dtype.kind not in "iO" for one in (a, b)):
        return
    words = [one.astype(np.int64) if one.dtype.kind == "i" else _last_word(one) for one in (a, b)]
    for shift in range(0, _WORD, _DIGIT):
        yield _View(*((word >> shift) & (2**_DIGIT - 1) for word in words))


def _last_word(values: Outputs) -> npt.NDArray[np.int64]:
    return np.array([int(v) & (2**63 - 1) if v is not None else 0 for v in values.tolist()], dtype=np.int64)
