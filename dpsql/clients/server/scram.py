"""SCRAM-SHA-256 on the side of the server, and what is kept of a password: enough to check who knows it, too little to log in with.

Source  RFC 5802, RFC 7677; PostgreSQL's form of a verifier and its use of SASLprep
Why     own  libpq leaves the user's name in the exchange empty, since the startup message has it, and libraries refuse that
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 15_000
_FIRST = re.compile(r"(n|y),(a=[^,]*)?,(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]{8,512}))(,.*)?")
_FINAL = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)),p=([A-Za-z0-9+/=]+)")
_VERIFIER = re.compile(r"SCRAM-SHA-256\$(\d{1,8}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
_PROHIBITED: tuple[Callable[[str], bool], ...] = (
    stringprep.in_table_a1, stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
    stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8, stringprep.in_table_c9,
)  # fmt: skip


class NotAuthenticated(Exception):
    """An exchange that does not show the password, for whatever reason: nobody is told which."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifier of one password."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @staticmethod
    def of(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
        """Make the verifier of a password, with a new salt."""
        salt = salt if salt is not None else secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac("sha256", prepared(password).encode("utf-8"), salt, iterations)
        client_key = _keyed(salted, b"Client Key")
        return Verifier(iterations, salt, hashlib.sha256(client_key).digest(), _keyed(salted, b"Server Key"))

    @staticmethod
    def read(text: str) -> Verifier | None:
        """A verifier as PostgreSQL writes it; None where the text is none."""
        found = _VERIFIER.fullmatch(text)
        if found is None:
            return None
        try:
            salt, stored, server = (base64.b64decode(part, validate=True) for part in found.groups()[1:])
        except binascii.Error:
            return None
        return Verifier(int(found[1]), salt, stored, server)

    def __str__(self) -> str:
        salt, stored, server = map(_encoded, (self.salt, self.stored_key, self.server_key))
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"

    @staticmethod
    def of_nobody(name: str, secret: bytes) -> Verifier:
        """A verifier that no password meets, always the same for a name: who is declared cannot be told from the exchange.

        secret  known to this server alone
        """
        salt, stored, server = (
            _keyed(secret, part + name.encode("utf-8")) for part in (b"salt ", b"stored ", b"server ")
        )
        return Verifier(ITERATIONS, salt[:16], stored, server)


def prepared(password: str) -> str:
    """A password by SASLprep; as it is where that prohibits it, as PostgreSQL does."""
    mapped = "".join(" " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c))
    found = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if not found or any(prohibited(c) for c in found for prohibited in _PROHIBITED):
        return password
    if any(map(stringprep.in_table_d1, found)):
        both_ends = stringprep.in_table_d1(found[0]) and stringprep.in_table_d1(found[-1])
        if not both_ends or any(map(stringprep.in_table_d2, found)):
            return password
    return found


class Exchange:
    """One login: the two messages of a client, and what is answered. The work is the same for whoever is not there."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._nonce = self._bare = self._first = self._header = ""

    def first(self, text: str) -> str:
        """Raises NotAuthenticated; also for a client that insists on channel binding, which is not offered."""
        found = _FIRST.fullmatch(text)
        if found is None:
            raise NotAuthenticated
        self._header = f"{found[1]},{found[2] or ''},"
        self._bare = found[3] + (found[5] or "")
        self._nonce = found[4] + secrets.token_urlsafe(24)
        self._first = f"r={self._nonce},s={_encoded(self._verifier.salt)},i={self._verifier.iterations}"
        return self._first

    def final(self, text: str) -> str:
        """The server's own proof. Raises NotAuthenticated where the client's is wrong."""
        found = _FINAL.fullmatch(text)
        if found is None:
            raise NotAuthenticated
        signed = f"{self._bare},{self._first},{found[1]}".encode()
        signature = _keyed(self._verifier.stored_key, signed)
        try:
            proof = base64.b64decode(found[4], validate=True)
        except binascii.Error:
            proof = b""
        shown = hashlib.sha256(bytes(a ^ b for a, b in zip(proof.ljust(32, b"\0"), signature, strict=False))).digest()
        right = hmac.compare_digest(shown, self._verifier.stored_key) and len(proof) == len(signature)
        right = right and hmac.compare_digest(found[3], self._nonce) and found[2] == _encoded(self._header.encode())
        if not right:
            raise NotAuthenticated
        return "v=" + _encoded(_keyed(self._verifier.server_key, signed))


def _keyed(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
