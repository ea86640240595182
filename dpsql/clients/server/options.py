"""Options of a server."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpsql.clients.dbapi.address import host_and_port, is_loopback
from dpsql.core.errors import error

PORT, HTTP_PORT = 5439, 8439
_LISTEN = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a listener."""

    host: str
    port: int

    @staticmethod
    def read(text: str, option: str = "--listen", port: int = PORT) -> Address:
        """Read what an option says. Raises 802.

        >>> Address.read("[::1]:5439")
        Address(host='::1', port=5439)
        """
        found = _LISTEN.fullmatch(text)
        if found is None or int(found[3]) > 65535:
            raise error(802, f"{text[:60]!r} is no address to listen on", hint=f"write {option} 127.0.0.1:{port}")
        return Address(found[1] or found[2], int(found[3]))

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def __str__(self) -> str:
        return host_and_port(self.host, self.port)


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of `dpsql serve`.

    http             address of the listener for HTTP; None: there is none
    users            one file of users for all datasets; None: each has its own beside its ledger
    certificate, key of TLS, in PEM; None: no TLS, which is for the loopback alone
    account          system's user that the front becomes, where root starts it
    oidc             file that declares an issuer of tokens; None: there is none
    workers          processes that answer, a dataset
    most_clients     connections at once, and of one user
    """

    schemas: Sequence[Path]
    listen: Address = Address("127.0.0.1", PORT)
    http: Address | None = None
    users: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    account: str | None = None
    oidc: Path | None = None
    workers: int = 2
    most_clients: int = 200
    most_of_user: int = 100
    log_statements: bool = False

    def check(self) -> None:
        """Raise 802 for what cannot be served safely."""
        if (self.certificate is None) != (self.key is None):
            raise error(802, "a certificate and its key go together", hint="write --tls-cert FILE --tls-key FILE")
        for place in (self.listen, self.http):
            if self.certificate is None and place is not None and not place.is_loopback:
                what = f"{place} can be reached from other machines, and without TLS anybody between reads the answers"
                raise error(802, what, hint="write --tls-cert FILE --tls-key FILE, or listen on 127.0.0.1")
        if self.oidc is not None and self.http is None:
            raise error(802, "tokens of an issuer come over HTTP alone", hint="write --http too")
        needed = ("starlette", "uvicorn", *(("jwt", "cryptography") if self.oidc is not None else ()))
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        if self.http is not None and missing:
            raise error(802, f"HTTP needs {' and '.join(missing)}", hint='write pip install "dpsql[server]"')
