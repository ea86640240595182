# mypy: disable-error-code="misc"
"""Engine URL and its parts: `dpsql:///path/schema.toml?analyst=alice&ledger=spent.ledger`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

FORM = "dpsql:///path/schema.toml?analyst=NAME&ledger=PATH"
MEMORY = ":memory:"
_KNOWN = ("analyst", "ledger")


@dataclass(frozen=True, slots=True)
class EngineUrl:
    """Dataset and analyst of an engine: the arguments of dpsql.connect. Without a schema it is left to the engine's
    `creator`."""

    schema: str | None
    analyst: str | None
    ledger: str | None


def read_url(url: URL) -> EngineUrl:
    """The parts of a URL. Raises ArgumentError with what to write instead."""
    if url.host is not None or url.port is not None:
        raise wrong("a dataset is a file: three slashes stand before a relative path, four before an absolute one")
    if url.password is not None:
        raise wrong("dpsql knows no passwords: whoever can read the data's files can open them")
    options = {name: _single(name, value) for name, value in url.query.items()}
    analyst = options.get("analyst")
    if url.username and analyst and url.username != analyst:
        raise wrong("it names two analysts, as the user and as analyst=; leave one out")
    return EngineUrl(url.database or None, url.username or analyst, options.get("ledger"))


def _single(name: str, value: str | tuple[str, ...]) -> str:
    if name not in _KNOWN:
        raise wrong(f"it has no option {name!r}; there are {' and '.join(_KNOWN)}")
    if not isinstance(value, str):
        raise wrong(f"{name} is given more than once")
    return value


def wrong(why: str) -> ArgumentError:
    """The error of a URL that cannot be used."""
    return ArgumentError(f"the URL cannot be used: {why}. Write {FORM}")
