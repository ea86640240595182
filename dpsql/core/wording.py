"""Numbers and lists as people read them."""

from __future__ import annotations

from fractions import Fraction


def counted(number: int, what: str, many: str = "") -> str:
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def listed(words: list[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def number(value: Fraction | float) -> str:
    """Six digits, with separators where that is how people write it.

    >>> number(Fraction(30000)), number(Fraction(1, 10**9)), number(0.5)
    ('30,000', '1e-09', '0.5')
    """
    near = float(value)
    if near == int(near) or abs(near) >= 10**5:
        return f"{near:,.0f}" if abs(near) < 10**15 else f"{near:.6g}"
    return f"{near:,.6g}"
