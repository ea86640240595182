"""An issuer of tokens on the loopback, of a test's own: its keys, what it publishes, and tokens of any kind."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUDIENCE = "dpsql"
SUBJECT = "8f3c-17"


@dataclass
class Issuer:
    """One issuer. keys: by id, with the algorithm that each is used with; asked: paths that were fetched."""

    url: str = "http://127.0.0.1:1"
    keys: dict[str, tuple[Any, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    published: dict[str, object] | None = None

    def add(self, name: str, algorithm: str) -> None:
        make = {
            "RS256": lambda: rsa.generate_private_key(65537, 2048),
            "PS256": lambda: rsa.generate_private_key(65537, 2048),
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
        }[algorithm]
        self.keys[name] = make(), algorithm

    def jwk(self, name: str) -> dict[str, Any]:
        """The public key as it is published."""
        key, algorithm = self.keys[name]
        found: dict[str, Any] = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
        found.pop("key_ops", None)
        return {**found, "kid": name, "use": "sig"}

    @property
    def jwks(self) -> list[dict[str, Any]]:
        return [self.jwk(name) for name in self.keys]

    def pem(self, name: str) -> bytes:
        """The public key, which anybody knows."""
        found: bytes = self.keys[name][0].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return found

    def token(self, name: str = "rsa", *, header: dict[str, object] | None = None, **claims: object) -> str:
        """A signed token; claims that are None are left out, times are [seconds] from now."""
        key, algorithm = self.keys[name]
        told = {of: value for of, value in {"kid": name, **(header or {})}.items() if value is not None}
        return jwt.encode(self.claims(**claims), key, algorithm=algorithm, headers=told)

    def claims(self, **other: object) -> dict[str, Any]:
        now = int(time.time())
        told: dict[str, Any] = {"iss": self.url, "aud": AUDIENCE, "sub": SUBJECT, "iat": 0, "exp": 300, **other}
        return {
            name: now + value if name in ("iat", "exp", "nbf") and isinstance(value, int) else value
            for name, value in told.items()
            if value is not None
        }

    def by_hand(self, header: dict[str, object], claims: dict[str, Any], sign: object) -> str:
        """A token that no library would make. sign  is given what is signed, and gives the signature"""
        assert callable(sign)
        said = b".".join(_text(json.dumps(part).encode()) for part in (header, claims))
        return (said + b"." + _text(sign(said))).decode()


def _text(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An issuer with a key of each kind, which publishes them."""
    issuer = Issuer()
    for name, algorithm in (("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA")):
        issuer.add(name, algorithm)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            told: object = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
            if self.path == "/keys":
                told = issuer.published if issuer.published is not None else {"keys": issuer.jwks}
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield issuer
        server.shutdown()


def declared(issuer: Issuer, **subjects: str) -> str:
    """The owner's file."""
    lines = [f'issuer = "{issuer.url}"', f'audience = "{AUDIENCE}"', "[subjects]"]
    return "\n".join([*lines, *(f'"{sub}" = "{name}"' for sub, name in subjects.items())]) + "\n"
