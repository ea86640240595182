"""Lower bounds on the epsilon of a mechanism, from what it put out on two neighbouring inputs.

A mechanism that promises epsilon is wrong, up to a chance of `alpha`, when the bound is above epsilon. One half of the outputs picks an
event, the other half measures its rates with exact bounds: so whatever the first half is searched for, it costs no confidence.

Source  Jagielski, Ullman, Oprea 2020, Auditing Differentially Private Machine Learning; Clopper, Pearson 1934
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

Outputs = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
View = tuple[Codes, Codes]
"""Something that is looked at of each output, as one of a few codes; on D and on D'."""
MASSES = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
_LEVELS = np.array([0.001, 0.005, *np.arange(1, 64) / 64, 0.995, 0.999])
"""Of outputs, between the bins that they are put into."""
_MOST_PAIRED = 8
_DIGIT, _WORD = 4, 64  # bits
_SLIP = 1 - 1e-6
_FAR = 5.0  # standard deviations


def eps_lower(first: Sequence[Outputs], second: Sequence[Outputs], delta: float = 0.0, alpha: float = 1e-6) -> float:
    """A bound ln((p - delta) / q), p and q the rates on D and D', or on D' and D, of one event, which the first half picks.

    first, second  one array a cell, all of one length [releases]: numbers, and None where a release shows nothing
    Output         above the true epsilon with a probability of at most alpha; at least 0

    Why  what is looked at is every cell; sums and differences of two cells, each brought to its own spread, where noise that is drawn
         once for both cancels; the digits of a cell, of which noise that is coarser than what it hides leaves the last ones; and all
         cells together: the logarithms of their ratios added up, which is the best there is for independent noise
    """
    half = len(first[0]) // 2
    found = (
        (_guess(a[event].sum(), b[event].sum(), half, delta), view, event)
        for codes in _views(first, second, half)
        for view in (codes, codes[::-1])
        for a, b in [_counts(view, slice(half))]
        for event in _events(a, b)
    )
    _, view, event = max(found, key=lambda one: one[0])
    a, b = _counts(view, slice(half, None))
    low, high = rate_above(a[event].sum(), a.sum(), alpha / 2), rate_below(b[event].sum(), b.sum(), alpha / 2)
    return max(0.0, float(np.log(max(low - delta, 1e-300) / high)))


def _counts(view: View, rows: slice) -> tuple[Codes, Codes]:
    size = max(int(codes.max()) for codes in view) + 1
    a, b = (np.bincount(codes[rows], minlength=size) for codes in view)
    return a, b


def _events(a: Codes, b: Codes) -> Iterator[Codes]:
    """Codes in the order of how much oftener they are in `a`, as many as hold each mass of it."""
    order = np.argsort(-(a + 0.5) / (b + 0.5), kind="stable")
    so_far = np.cumsum(a[order]) / max(1, a.sum())
    return (order[: np.searchsorted(so_far, mass) + 1] for mass in MASSES)


def _guess(hits: float, others: float, trials: int, delta: float) -> float:
    """About what the bound is: to compare events by."""
    low, high = hits - _FAR * np.sqrt(hits), others + _FAR * np.sqrt(others) + _FAR**2 / 2
    return float(np.log(max(low - delta * trials, 1e-9) / high))


# --- rates --------------------------------------------------------------------------------------------------------------


def rate_above(hits: int, trials: int, alpha: float) -> float:
    """A number that a true rate is below with a probability of at most alpha."""
    log_ways, at = _log_ways(int(trials))[hits:], np.arange(hits, trials + 1)
    low, high = 0.0, hits / trials
    # the probability of so many hits or more grows with the rate
    for _ in range(50 if hits else 0):
        middle = (low + high) / 2
        chance = np.exp(log_ways + at * np.log(middle) + (trials - at) * np.log1p(-middle)).sum()
        low, high = (middle, high) if chance <= alpha * _SLIP else (low, middle)
    return low


def rate_below(hits: int, trials: int, alpha: float) -> float:
    """A number that a true rate is above with a probability of at most alpha."""
    return 1 - rate_above(trials - hits, trials, alpha)


@lru_cache(maxsize=16)
def _log_ways(trials: int) -> Floats:
    """The logarithms of the binomial coefficients."""
    k = np.arange(1, trials + 1)
    return np.append(0.0, np.cumsum(np.log((trials - k + 1) / k)))


# --- what is looked at --------------------------------------------------------------------------------------------------


def _views(first: Sequence[Outputs], second: Sequence[Outputs], half: int) -> Iterator[View]:
    numbers = [(_number(a), _number(b)) for a, b in zip(first, second, strict=True)]
    cells = [_binned(a, b, half) for a, b in numbers]
    yield from cells
    counts = [_counts(cell, slice(half)) for cell in cells]
    ratios = [np.log((a + 0.5) / (b + 0.5)) for a, b in counts]
    a, b = (np.sum([ratio[cell[i]] for ratio, cell in zip(ratios, cells, strict=True)], axis=0) for i in range(2))
    yield _binned(a, b, half)
    spread = [_to_spread(a, b, half) for a, b in numbers[:_MOST_PAIRED]]
    for (a, b), (c, d) in combinations(spread, 2):
        yield _binned(a - c, b - d, half)
        yield _binned(a + c, b + d, half)
    for pair in zip(first, second, strict=True):
        words = [_words(one) for one in pair]
        for shift in range(0, _WORD, _DIGIT):
            one, other = (word >> shift & (2**_DIGIT - 1) for word in words)
            yield one, other


def _number(values: Outputs) -> Floats:
    """As DOUBLE; what is not shown is below everything."""
    return np.nan_to_num(values.astype(np.float64), nan=-1e300)  # None becomes NaN


def _binned(a: Floats, b: Floats, half: int) -> View:
    """The values themselves where there are few, else bins, finer at the ends."""
    known = np.concatenate([a[:half], b[:half]])
    edges = np.unique(known)
    if len(edges) > len(_LEVELS):
        edges = np.unique(np.quantile(known, _LEVELS, method="lower"))
    return np.searchsorted(edges, a, side="right"), np.searchsorted(edges, b, side="right")


def _to_spread(a: Floats, b: Floats, half: int) -> tuple[Floats, Floats]:
    low, middle, high = np.quantile(np.concatenate([a[:half], b[:half]]), (0.25, 0.5, 0.75))
    width = high - low or 1.0
    return (a - middle) / width, (b - middle) / width


def _words(values: Outputs) -> Codes:
    """The last bits of whole numbers."""
    if values.dtype.kind == "i":
        return values.astype(np.int64)
    return np.array([int(v or 0) & (2**63 - 1) for v in values.tolist()], dtype=np.int64)
