"""Accountants: how many releases one promise holds, by five ways to add up.

Mechanism    discrete Laplace and discrete Gaussian noise for one count, k times, each price chosen after the answers before it
Sensitivity  one person changes the count by 1
Guarantee    (epsilon, delta) in all, kept by one of
             pure      the epsilons added up
             advanced  their squares S: sqrt(2 ln(1 / delta) S) + S / 2
             zcdp      rho, the growth of every Renyi divergence: D_a <= a rho for every order a at once
             gdp       mu: telling two databases apart is as hard as N(0, 1) from N(mu, 1); squares of mu add up
             rdp       the Renyi divergence of one order a, which is fixed before the first release
Source       Dwork, Roth 2014, theorems 3.16 and 3.20; Bun, Steinke 2016 (zcdp); Dong, Roth, Su 2022 (gdp); Mironov 2017 (rdp);
             Feldman, Zrnic 2021, and Whitehouse, Ramdas, Rogers, Wu 2023, for prices that are chosen on the way

Each mechanism is what it is; accountants differ in how tightly they speak of it. zcdp and gdp describe Gaussian noise exactly, and of
Laplace noise they know only its worst; one order of rdp knows more of Laplace noise. dpsql joins pure, zcdp and gdp by default and
stops only where none of them is left; the order in which answers came does not matter.
"""

from fractions import Fraction
from statistics import NormalDist

from dpsql.accountants.filters import Promise, gaussian_event
from dpsql.core.events import Event
from dpsql.core.loss import NO_LOSS, EpsilonDelta
from dpsql.mechanisms.laplace import DiscreteLaplace

TOTAL = EpsilonDelta(Fraction(1), Fraction(1, 10**6))
ACCOUNTINGS = ("sequential", "advanced", "zcdp", "gdp", "rdp", "auto")
LEVEL = Fraction(19, 20)


def laplace(half_width: int) -> Event:
    """The event of a count with the narrowest Laplace noise that is within so much with 95 %."""
    scale = max(s for s in range(1, half_width) if DiscreteLaplace(Fraction(s)).half_width(LEVEL) <= half_width)
    return DiscreteLaplace(Fraction(scale)).event(1, NO_LOSS)


def gaussian(half_width: int) -> Event:
    """The event of a count with Gaussian noise that is within so much with 95 %: rho = 1 / (2 sigma^2)."""
    sigma = half_width / NormalDist().inv_cdf(0.975)
    return gaussian_event(Fraction(1 / (2 * sigma**2)))


def fit(event: Event, accounting: str) -> int:
    """The number of such releases that the total holds."""
    promise = Promise.under(TOTAL, accounting)
    keeps, one, spent, count = promise.keeps(TOTAL), promise.sums(event.loss, (event,)), promise.nothing, 0
    while keeps.admits(spent := spent + one):
        count += 1
    return count


def main() -> None:
    """Print how many counts fit, by how exact they are."""
    print(
        f"-- how many counts fit epsilon {float(TOTAL.epsilon):g}, delta {float(TOTAL.delta):g}, each within +-h with 95 %"
    )
    print("     h  noise      " + "  ".join(f"{name:>10}" for name in ACCOUNTINGS))
    for half_width in (10, 30, 100, 300):
        for name, event in (("laplace", laplace(half_width)), ("gaussian", gaussian(half_width))):
            print(f"  {half_width:4}  {name:9}  " + "  ".join(f"{fit(event, word):10,}" for word in ACCOUNTINGS))
    print(
        "\n-- a few exact counts: plain addition of epsilons is best, and takes no delta; Gaussian noise ends it at once"
    )
    print("-- many inexact ones: Gaussian noise and an accountant that speaks its language; sqrt(k) instead of k")


if __name__ == "__main__":
    main()
