"""An issuer of OpenID Connect whose tokens stand for analysts, as the owner declares it in a TOML file."""

from __future__ import annotations

import ipaddress
import os
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dpsql.core.errors import Error, error

LONGEST = 2000
_FIELDS = ("issuer", "audience", "subjects")


@dataclass(frozen=True, slots=True)
class Issuer:
    """Issuer of tokens, and the analysts that they stand for.

    url       of the issuer, as it stands in tokens: `iss`
    audience  that a token must be for: `aud`
    subjects  by `sub` of a token, the name of an analyst
    """

    url: str
    audience: str
    subjects: dict[str, str]


def read_issuer(path: Path) -> Issuer:
    """Read the file. Raises 802."""
    problem = "cannot be read"
    try:
        with open(path, "rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o022:
                problem = "can be written by others, who could make anybody an analyst"
                raise OSError
            found = tomllib.load(file)
        return _declared(path, found)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        problem = "is no TOML"
    except OSError:
        pass
    raise error(802, f"{path} {problem}", hint="see that it is the owner's alone to write: chmod 0600")


def _declared(path: Path, found: dict[str, object]) -> Issuer:
    unknown = next((name for name in found if name not in _FIELDS), None)
    if unknown is not None:
        raise _wrong(path, f"has no {unknown[:40]!r}: it has {', '.join(_FIELDS)}")
    url, audience, subjects = (found.get(name) for name in _FIELDS)
    if not isinstance(url, str) or not is_safe(url):
        raise _wrong(path, 'names no issuer by https: issuer = "https://login.example.org"')
    if not isinstance(audience, str) or not audience:
        raise _wrong(path, 'names no audience, so that a token for any other service would do: audience = "dpsql"')
    names = subjects if isinstance(subjects, dict) else {}
    if not names or not all(isinstance(name, str) and name for name in (*names, *names.values())):
        raise _wrong(path, 'says of nobody whom a token stands for: [subjects] with "sub of a token" = "analyst"')
    return Issuer(url, audience, names)


def _wrong(path: Path, what: str) -> Error:
    return error(802, f"{path} {what}", hint="the page of HTTP shows such a file")


def is_safe(url: str) -> bool:
    """True for a URL that nobody between can answer in place of its host: by https, or of this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if not host or len(url) > LONGEST or parts.query or parts.fragment or parts.username is not None:
            return False
        return parts.scheme == "https" or (parts.scheme == "http" and ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False
