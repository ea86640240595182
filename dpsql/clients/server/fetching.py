"""The process that fetches the keys of an issuer: it reaches the network, no data and no ledger, says what came, and ends.

Why     the front, which reads what anybody sends, has no network; the supervisor, which has the ledger, reads nothing that comes
        from one
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from dpsql.clients.dbapi.packed import Json
from dpsql.clients.server import frames
from dpsql.clients.server.confinement import Reach, become, confine, network_files, python_files
from dpsql.clients.server.frames import Lost, Message
from dpsql.clients.server.oidc import is_safe

SECONDS, IN_ALL = 10.0, 60
LONGEST = 256 * 1024
MOST_KEYS = 100
DISCOVERY = "/.well-known/openid-configuration"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An issuer is asked where it says that it is, and nowhere else."""

    def redirect_request(self, *_: object) -> None:
        return None


def keys_of(issuer: str) -> list[Json]:
    """The public keys of an issuer, as JSON Web Keys. Raises ValueError, OSError, http.client.HTTPException."""
    told = _object(issuer.rstrip("/") + DISCOVERY)
    if told.get("issuer") != issuer:
        raise ValueError
    keys = _object(str(told.get("jwks_uri"))).get("keys")
    if not isinstance(keys, list):
        raise ValueError
    return keys[:MOST_KEYS]


def _object(url: str) -> Message:
    if not is_safe(url):
        raise ValueError
    # a proxy of the environment is for what is not on this machine
    proxies: dict[str, str] | None = {} if urlsplit(url).scheme == "http" else None
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler(proxies))
    with opener.open(url, timeout=SECONDS) as response:
        body = response.read(LONGEST + 1)
    found = json.loads(body) if len(body) <= LONGEST else None
    if not isinstance(found, dict):
        raise ValueError
    return found


def main(arguments: list[str]) -> int:
    """One look at an issuer.

    arguments  number of the socket to the front; the issuer's URL; the system's account, or nothing
    """
    link, issuer, account = socket.socket(fileno=int(arguments[0])), arguments[1], arguments[2]
    signal.alarm(IN_ALL)
    if account:
        become(account)
    trusted = [Path(path) for path in (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")) if path]
    confine(Reach(read=(*python_files(), *network_files(), *trusted), network=True))
    answer: Message = {}
    with contextlib.suppress(ValueError, OSError, http.client.HTTPException, RecursionError):
        answer = {"keys": keys_of(issuer)}
    try:
        frames.send(link, answer)
    except Lost:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
