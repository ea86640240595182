# mypy: disable-error-code="misc"
"""Engine URL and its parts: `dpsql:///path/schema.toml?analyst=alice&ledger=spent.ledger`, and `dpsql://alice@host:8439/randhie` of a
server."""

from __future__ import annotations

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

FORM = "dpsql:///path/schema.toml?analyst=NAME&ledger=PATH"
MEMORY = ":memory:"
SERVER_FORM = "dpsql://ANALYST:TOKEN@HOST:8439/DATASET"
_KNOWN = ("analyst", "ledger")
_OF_SERVER = ("tls",)
Arguments = dict[str, str | None]


def read_url(url: URL) -> Arguments:
    """The arguments of dpsql.connect that a URL says; without a schema it is left to the engine's `creator`. Raises ArgumentError with
    what to write instead."""
    if url.host is not None:
        return _of_server(url, url.host)
    if url.port is not None:
        raise wrong("it has a port and no host")
    if url.password is not None:
        raise wrong("dpsql knows no passwords: whoever can read the data's files can open them")
    options = {name: _single(name, value, _KNOWN) for name, value in url.query.items()}
    analyst = options.get("analyst")
    if url.username and analyst and url.username != analyst:
        raise wrong("it names two analysts, as the user and as analyst=; leave one out")
    return {"schema": url.database or None, "analyst": url.username or analyst, "ledger": options.get("ledger")}


def _of_server(url: URL, host: str) -> Arguments:
    """Address of a dataset on a server; `tls=off` is for one on this machine.

    The token is the password, or else the environment's DPSQL_TOKEN.
    """
    if not url.database:
        raise ArgumentError(f"the URL cannot be used: it names no dataset. Write {SERVER_FORM}, or {FORM}")
    if url.database.endswith(".toml"):
        raise wrong("a dataset is a file: three slashes stand before a relative path, four before an absolute one")
    options = {name: _single(name, value, _OF_SERVER) for name, value in url.query.items()}
    if options.get("tls", "on") not in ("on", "off"):
        raise ArgumentError("the URL cannot be used: tls is on or off")
    scheme = "http" if options.get("tls") == "off" else "https"
    place = f"[{host}]" if ":" in host else host
    port = f":{url.port}" if url.port is not None else ""
    own = {} if url.password is None else {"token": url.password}
    return {"schema": f"{scheme}://{place}{port}/{url.database}", "analyst": url.username, "ledger": None, **own}


def _single(name: str, value: str | tuple[str, ...], known: tuple[str, ...]) -> str:
    if name not in known:
        raise wrong(f"it has no option {name!r}; there are {' and '.join(known)}")
    if not isinstance(value, str):
        raise wrong(f"{name} is given more than once")
    return value


def wrong(why: str) -> ArgumentError:
    """The error of a URL that cannot be used."""
    return ArgumentError(f"the URL cannot be used: {why}. Write {FORM}")
