"""A picture of `tune`: for each statement the error of its columns over the price. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.core.errors import error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpsql.session.tuning import TunedStatement, TuneReport

WIDTH, HEIGHT = 7.0, 3.2  # [inch] of one statement
LONGEST = 90  # characters of a title


def draw(report: TuneReport, file: str) -> None:
    """Write the picture, in the format that the file's suffix names. Raises 802."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise error(802, "--plot needs matplotlib", hint="install the extra: pip install 'dpsql[examples]'") from None
    answered = [one for one in report.statements if one.prices and not one.own_price]
    if not answered:
        raise error(802, "no statement has an answer to draw", hint="leave --plot out to read why")
    figure = Figure(figsize=(WIDTH, HEIGHT * len(answered)), layout="constrained")
    for place, one in enumerate(answered, start=1):
        axes = figure.add_subplot(len(answered), 1, place)
        for name in one.typical:
            _column(axes, one, name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        text = " ".join(one.sql.split())
        axes.set_title(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...", fontsize=8)
        axes.set_xlabel("epsilon of the statement")
        axes.set_ylabel("95 % error / typical value")
        axes.legend(fontsize=8)
    try:
        figure.savefig(file)
    except (OSError, ValueError):
        raise error(
            802, "the picture cannot be written", hint="name a .png, .svg or .pdf in a folder that exists"
        ) from None


def _column(axes: Axes, one: TunedStatement, name: str) -> None:
    """The errors of a column beside its typical value, or as they are where it has none."""
    scale = one.typical[name] or 1.0
    prices = [float(at.epsilon) for at in one.prices if name in at.errors]
    low = [at.errors[name].low / scale for at in one.prices if name in at.errors]
    high = [at.errors[name].high / scale for at in one.prices if name in at.errors]
    axes.plot(prices, high, marker="o", label=name)
    axes.fill_between(prices, low, high, alpha=0.3)
