"""A plot in a terminal: as wide as it may be, and what was spent is seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dpsql.clients.terminal.plot import HEIGHT, plot

START = datetime(2026, 11, 1, tzinfo=UTC)


def days(count: int) -> list[datetime]:
    return [START + timedelta(days=i) for i in range(count)]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("count", [1, 2, 3, 1000])
@pytest.mark.parametrize("plain", [False, True])
def test_it_is_as_wide_as_it_may_be(width: int, count: int, plain: bool) -> None:
    lines = plot(days(count), [0.1] * count, width, plain=plain).split("\n")
    assert len(lines) == HEIGHT + 1 and max(map(len, lines)) <= width
    assert lines[0].lstrip().startswith(f"{0.1 * count:.4g} ")
    assert not plain or "\n".join(lines).isascii()


def test_it_grows_and_ends_at_the_top() -> None:
    lines = plot(days(10), [1.0] * 10, 40).split("\n")
    columns = ["".join(line.ljust(40)[4 + i] for line in lines[:HEIGHT]) for i in range(36)]
    heights = [sum(" ▁▂▃▄▅▆▇█".index(cell) for cell in column) for column in columns]
    assert heights == sorted(heights) and heights[0] > 0 and heights[-1] == 8 * HEIGHT


def test_the_axis_shows_days_or_times() -> None:
    assert plot(days(3), [1.0] * 3, 40).split("\n")[-1].split() == ["2026-11-01", "2026-11-03"]
    minutes = [START, START + timedelta(minutes=5)]
    assert plot(minutes, [1.0] * 2, 40).split("\n")[-1].split() == ["2026-11-01", "00:00", "00:05"]


def test_nothing_was_spent() -> None:
    assert plot([], [], 40) == ""
    assert "█" not in plot(days(2), [0.0, 0.0], 40)
