"""Sizes of memory as text: 2GB, 512MiB."""

from __future__ import annotations

import re

UNITS = {
    "TB": 10**12, "TiB": 2**40, "GB": 10**9, "GiB": 2**30, "MB": 10**6, "MiB": 2**20, "KB": 10**3, "KiB": 2**10, "B": 1
}  # fmt: skip
_SIZE = re.compile(r"(\d{1,18}) ?([KMGT]i?B|B)", re.IGNORECASE | re.ASCII)


def size(text: str) -> int | None:
    """[bytes] of a text; None where it is no size.

    >>> size("2GB"), size("64 MiB"), size("2")
    (2000000000, 67108864, None)
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    return int(found[1]) * next(count for unit, count in UNITS.items() if unit.lower() == found[2].lower())


def written(size: int) -> str:
    """The text of a size, in the largest unit that says it exactly.

    >>> written(2 * 10**9), written(2**20), written(1234)
    ('2GB', '1MiB', '1234B')
    """
    unit = next(unit for unit, count in UNITS.items() if size % count == 0)
    return f"{size // UNITS[unit]}{unit}"
