"""Address of a dataset on a server, and the token by which an analyst comes."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from dpsql.core.errors import Error, error

PORT = 8439
TOKEN = "DPSQL_TOKEN"
"""The environment's variable of the token: a command line can be read by every user of a machine."""
FORM = "https://HOST:8439/DATASET"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Place of a dataset.

    path  below which its requests are
    """

    secure: bool
    host: str
    port: int
    path: str
    token: str = field(repr=False)

    @property
    def place(self) -> str:
        """Host and port, for errors."""
        return host_and_port(self.host, self.port)


def read_address(text: str, token: str | None) -> ServerAddress:
    """The parts of a URL. Raises 802 with what to write instead.

    token  None: that of the environment

    >>> read_address("https://db.example.org/randhie", "t").port
    8439
    """
    try:
        parts = urlsplit(text)
        port = parts.port or PORT
    except ValueError:
        raise _wrong("it cannot be read") from None
    above, _, dataset = parts.path.rstrip("/").rpartition("/")
    if not parts.hostname or not dataset:
        raise _wrong("it names no dataset")
    if parts.query or parts.fragment:
        raise _wrong("it has more than a host and a dataset")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise error(
            802, "a token is not sent in plain text to another machine", hint=f"write {FORM}, of a server with TLS"
        )
    found = token or (unquote(parts.password) if parts.password else None) or os.environ.get(TOKEN)
    if not found:
        what = "a server is asked with a token, which its owner prints with `dpsql user token`"
        raise error(802, what, hint=f"write dpsql.connect(..., token=...), or set {TOKEN}")
    if not found.isascii() or not found.isprintable():
        raise error(802, "the token has characters that no token has", hint="copy it whole, without what stands around")
    path = f"{above}/v1/{quote(unquote(dataset), safe='')}"
    return ServerAddress(parts.scheme == "https", parts.hostname, port, path, found)


def host_and_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _wrong(why: str) -> Error:
    return error(802, f"the URL of the server cannot be used: {why}", hint=f"write {FORM}")


def is_loopback(host: str) -> bool:
    """True for a host that is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
