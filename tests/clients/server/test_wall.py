"""Limits before and after login, TLS, and a worker that is told to break out."""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.clients.server import login, reaching
from dpsql.schema.toml import read_schema
from dpsql.session.opening import default_ledger, ledger_identity
from tests.support.raw_client import RawClient, errors, fields, message, rows, startup
from tests.support.served import ROOT, Served, served

# --- limits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        struct.pack("!II", 16 * 1024 + 1, 3 << 16),
        struct.pack("!II", 2**31, 3 << 16),
        struct.pack("!II", 7, 3 << 16),
        struct.pack("!II", 8, 2 << 16),
        struct.pack("!II", 8, 80877103) * 4,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        startup(database="randhie"),
        startup(user="alice", replication="database"),
    ],
)
def test_what_is_no_login_ends_at_once(server: Served, said: bytes) -> None:
    with RawClient(server.port) as one:
        one.send(said)
        one.socket.settimeout(5)
        told = one.receive()
        while told is not None and told[0] != b"E":
            told = one.receive()
        assert told is None or fields(told[1])["S"] == "FATAL"


def test_a_password_message_that_is_too_long(server: Served) -> None:
    with RawClient(server.port) as one:
        one.send(startup(user="alice", database="randhie"))
        assert one.receive() is not None
        one.send(b"p" + struct.pack("!I", 16 * 1024 + 1))
        told = one.receive()
        assert told is not None
        assert fields(told[1])["C"] == "54000"


def test_a_statement_that_is_too_long(server: Served, client: RawClient) -> None:
    found = client.query("SELECT 1 --" + "x" * 250_000)
    assert errors(found)[0]["C"] == "DP107"
    assert errors(client.query("BEGIN;" * 10_001))[0]["C"] == "DP107"
    assert not errors(client.query("COMMIT;" * 100))
    client.send(b"Q" + struct.pack("!I", 1024 * 1024 + 1))
    assert errors(client.until_ready())[0]["C"] == "54000"


@pytest.mark.slow
def test_who_does_not_log_in_is_sent_away(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds, whoever says nothing or little."""
    assert login.LOGIN_SECONDS == 10
    with RawClient(server.port) as one, RawClient(server.port) as two:
        two.send(b"\0\0")
        one.socket.settimeout(60)
        assert one.receive() is None
        assert two.receive() is None


def test_more_clients_than_there_may_be(server: Served) -> None:
    """Those who are there are served on, and others when some have left."""
    crowd = []
    try:
        for _ in range(200):
            crowd.append(RawClient(server.port))
        with RawClient(server.port) as late:
            late.send(startup(user="alice", database="randhie"))
            told = late.receive()
            assert told is None or fields(told[1])["C"] == "53300"
    finally:
        for one in crowd:
            one.socket.close()
    with RawClient(server.port) as one:
        assert one.login()[-1][0] == b"Z"


def test_messages_in_the_wrong_order(server: Served, client: RawClient) -> None:
    for said in (message(b"E", b"\0\0\0\0\0"), message(b"D", b"P\0"), message(b"B", b"\0none\0\0\0\0\0\0\0")):
        client.send(said, message(b"S"))
        assert errors(client.until_ready())[0]["C"] == "DP802"
    assert rows(client.query("SELECT COUNT(*) FROM plan")) == [["18"]]


# --- TLS ------------------------------------------------------------------------------------------------------------------


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of localhost that nobody signed."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")]),
    )
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False).sign(key, hashes.SHA256())
    )  # fmt: skip
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


def test_tls(folder: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    paths = certificate(folder.parent)
    with served(folder, "--tls-cert", str(paths[0]), "--tls-key", str(paths[1]), "--workers", "1") as server:
        address = server.address().replace("sslmode=disable", f"sslmode=verify-ca sslrootcert={paths[0]}")
        with psycopg.connect(address, autocommit=True) as connection:
            assert connection.execute("SELECT COUNT(*) FROM plan").fetchall() == [(18,)]
            assert connection.pgconn.ssl_in_use
        # what is sent in plain text before TLS has begun is never taken for what came inside
        with RawClient(server.port) as one:
            one.send(struct.pack("!II", 8, 80877103) + startup(user="alice", database="randhie"))
            assert one.socket.recv(1) in (b"E", b"")
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            plain.sendall(struct.pack("!II", 8, 80877103))
            assert plain.recv(1) == b"S"
            with ssl.create_default_context(cafile=str(paths[0])).wrap_socket(
                plain, server_hostname="localhost"
            ) as inside:
                assert inside.version() == "TLSv1.3"


def test_no_listener_for_others_without_tls(folder: Path) -> None:
    command = [sys.executable, "-m", "dpsql", "serve", str(folder), "--listen", "0.0.0.0:0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("DPSQL-802: 0.0.0.0:0 can be reached from other machines, and without TLS")


def test_a_schema_without_analysts_is_not_served(tmp_path: Path) -> None:
    path = ROOT / "examples" / "randhie" / "schema.toml"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in ((), ("--http",)):
        command = [sys.executable, "-m", "dpsql", "serve", *words, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=tmp_path)
        assert (done.returncode, done.stderr.split(":")[0]) == (2, "DPSQL-803")


# --- a worker that is told to break out -----------------------------------------------------------------------------------

BREAK_OUT = """
import ctypes, json, os, socket, subprocess, sys, threading
from pathlib import Path
from dpsql.clients.server.worker import reach_of
from dpsql.clients.server.confinement import confine

told = json.loads(sys.argv[1])
if sys.argv[2] == "confined":
    assert confine(reach_of(told)) == ()
place = Path(told["schema"]).parent
libc = ctypes.CDLL(None, use_errno=True)

def called(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")

ATTEMPTS = {
    "read the users": lambda: (place / "randhie.ledger.users").read_text(),
    "read another dataset": lambda: (place.parent / "other.txt").read_text(),
    "read the passwords of the system": lambda: Path("/etc/passwd").read_text(),
    "write beside the data": lambda: (place / "new.txt").write_text("x"),
    "write the data": lambda: open(place / "plan.parquet", "ab").close(),
    "remove the data": lambda: (place / "plan.parquet").unlink(),
    "rename the ledger": lambda: (place / "randhie.ledger").rename(place / "old.ledger"),
    "write elsewhere": lambda: Path(told["elsewhere"], "x").write_text("x"),
    "run a program": lambda: subprocess.run(["/bin/true"]),
    "become a program": lambda: os.execv("/bin/true", ["true"]),
    "begin a process": os.fork,
    "open a connection": lambda: socket.create_connection(("127.0.0.1", told["port"])),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)),
    "end its parent": lambda: os.kill(os.getppid(), 0),
    "look into its parent": lambda: open(f"/proc/{os.getppid()}/environ", "rb").read(1),
    "trace its parent": lambda: called(101, 16, os.getppid(), 0, 0),
    "read its parent's memory": lambda: open(f"/proc/{os.getppid()}/mem", "rb").read(1),
    "go round the filter": lambda: called(425, 8, 0),
    "use other numbers of calls": lambda: called(0x40000000 | 41, 1, 1, 0),
}
AS_IT_SHOULD = {
    "read the data": lambda: (place / "plan.parquet").read_bytes(),
    "open the ledger": lambda: open(place / "randhie.ledger", "r+b").close(),
    "spill": lambda: Path(told["own"][0], "x").write_text("x"),
    "start a thread": lambda: threading.Thread(target=int).start(),
}
if sys.argv[2] != "confined":
    for name in ("begin a process", "become a program", "remove the data", "rename the ledger", "trace its parent"):
        del ATTEMPTS[name]
done = {}
for name, attempt in {**ATTEMPTS, **AS_IT_SHOULD}.items():
    try:
        attempt()
        done[name] = "done"
    except OSError as problem:
        done[name] = type(problem).__name__
print(json.dumps({"attempts": {n: done[n] for n in ATTEMPTS}, "wanted": {n: done[n] for n in AS_IT_SHOULD}}))
"""


def _attempts(path: Path, how: str) -> dict[str, dict[str, str]]:
    schema = read_schema(path)
    spill = path.parent.parent / f"spill-{how}"
    spill.mkdir()
    (path.parent.parent / "other.txt").write_text("another dataset")
    ledger = Ledger.open(default_ledger(schema), ledger_identity(schema))
    ledger.store.write(lambda connection: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        told = {"schema": str(path), "port": listener.getsockname()[1], "elsewhere": str(path.parent.parent)}
        told |= reaching.of_worker(schema, ledger, spill)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", BREAK_OUT, json.dumps(told), how]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    ledger.close()
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


def test_a_worker_that_breaks_out_reaches_nothing(folder: Path) -> None:
    """A worker's own confinement, and then what a broken engine would try."""
    probe = "from dpsql.clients.server.confinement import confine, Reach; import sys; sys.exit(bool(confine(Reach())))"
    if subprocess.run(
        [sys.executable, "-c", probe], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    ).returncode:
        pytest.skip("this kernel has no seccomp or no Landlock")
    found = _attempts(folder, "confined")
    assert {name for name, came in found["attempts"].items() if came == "done"} == set()
    assert set(found["wanted"].values()) == {"done"}


def test_the_attempts_are_real(folder: Path) -> None:
    """Without the confinement they are done: but those that root alone may."""
    found = _attempts(folder, "free")["attempts"]
    done = {name for name, came in found.items() if came == "done"}
    assert {"read the users", "read another dataset", "write beside the data", "write the data", "run a program", "open a connection",
            "listen", "end its parent", "look into its parent"} <= done  # fmt: skip
