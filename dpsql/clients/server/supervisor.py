"""The process that `dpsql serve` starts as: it starts the front and, when that asks, workers, ends them, and tells verifiers of users.

It speaks with nobody but the front, and answers its requests: a worker for a dataset, the end of a worker, the verifier of a name,
whom a token stands for, whom a subject of the declared issuer stands for, a process that fetches that issuer's keys.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dpsql.accounting.ledger import Ledger
from dpsql.clients.dbapi.packed import Json
from dpsql.clients.server import reaching
from dpsql.clients.server.oidc import Issuer, read_issuer
from dpsql.clients.server.options import Address, ServeOptions
from dpsql.clients.server.scram import Verifier
from dpsql.clients.server.tokens import OWNER, holder_of, tokens_file
from dpsql.clients.server.users import read_users, require_served, users_file
from dpsql.core.errors import Error, error
from dpsql.schema.model import Schema
from dpsql.schema.toml import read_schema
from dpsql.session.opening import default_ledger, ledger_identity

Result = TypeVar("Result")
PACKET = 65536
ROLLED_BACK = "DPSQL-705"
PAUSE_SECONDS = 1.0
"""Between two looks at the memory of the workers."""
SPARE = 1_500_000_000
"""[bytes] that a worker may take beyond the owner's limit, for Python and the libraries."""
_PYTHON = (sys.executable, "-P", "-X", "utf8", "-m")


@dataclass(slots=True)
class ServedDataset:
    """One dataset of the server, and where its users are."""

    schema: Schema
    path: Path
    ledger: Ledger
    users: Path


@dataclass(slots=True)
class RunningWorker:
    """A worker process, its folder for what does not fit into memory, and the most memory that it may take [bytes]."""

    process: subprocess.Popen[bytes]
    spill: Path
    most: int


@dataclass(slots=True)
class Supervisor:
    """Supervisor of one server.

    told  is given a line for whoever started the server
    """

    options: ServeOptions
    told: Callable[[str], None]
    datasets: list[ServedDataset] = field(default_factory=list)
    workers: dict[int, RunningWorker] = field(default_factory=dict)
    _issuer: Issuer | None = None
    _fetching: subprocess.Popen[bytes] | None = None
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _ended: bool = False

    def run(self) -> int:
        """Serve until SIGTERM or Ctrl-C. Output: the exit code. Raises dpsql's errors before anything is served."""
        self.options.check()
        self._issuer = read_issuer(self.options.oidc) if self.options.oidc is not None else None
        for path in self.options.schemas:
            self.datasets.append(_served(path, self.options.users, self.datasets))
        control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as listening:
            listener = listening.enter_context(_listener(self.options.listen))
            http = None if self.options.http is None else listening.enter_context(_listener(self.options.http))
            front = self._front(other, listener, http)
            other.close()
            self._announce(listener.getsockname()[1])
            if http is not None:
                self._announce_http(http.getsockname()[1])
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._end(control))
        try:
            self._attend(control)
        finally:
            self._finish(front)
        if not self._ended:
            self.told("the front of the server ended by itself")
            return 4
        return 0

    def _announce(self, port: int) -> None:
        host, mode = self.options.listen.host, "require" if self.options.certificate else "disable"
        for dataset in self.datasets:
            for name in read_users(dataset.users) or {"NAME": ""}:
                shown = f"host={host} port={port} user={name} dbname={dataset.schema.name} sslmode={mode}"
                self.told(f'psql "{shown}"')
            if not read_users(dataset.users):
                self.told(f"nobody can log in yet: dpsql user add NAME {dataset.path}")
        if os.geteuid() == 0 and self.options.account is None:
            self.told("started by root: the front keeps root's account; --account NAME gives it another")

    def _announce_http(self, port: int) -> None:
        assert self.options.http is not None
        place = Address(self.options.http.host, port)
        scheme = "https" if self.options.certificate else "http"
        self.told(f"the owner's page: {scheme}://{place}/ (any name; the password is a token of `dpsql user owner`)")
        for dataset in self.datasets:
            self.told(f'dpsql.connect("{scheme}://{place}/{dataset.schema.name}", token=...) (of `dpsql user token`)')

    # --- the front's requests -------------------------------------------------------------------------------------------

    def _attend(self, control: socket.socket) -> None:
        """Answer the front until it is gone; look after the others however much it asks. Raises 705."""
        control.settimeout(PAUSE_SECONDS)
        look = 0.0
        while not self._ended:
            if time.monotonic() >= look:
                self._look()
                look = time.monotonic() + PAUSE_SECONDS
            try:
                packet = control.recv(PACKET)
            except TimeoutError:
                continue
            except OSError:
                return
            if not packet:
                return
            answer, passed = self._answer(json.loads(packet))
            try:
                socket.send_fds(control, [json.dumps(answer).encode()], [one.fileno() for one in passed])
            except OSError:
                return
            finally:
                for one in passed:
                    one.close()

    def _answer(self, asked: dict[str, Json]) -> tuple[dict[str, Json], list[socket.socket]]:
        match asked:
            case {"op": "worker", "dataset": int(index)} if 0 <= index < len(self.datasets):
                return self._start(self.datasets[index])
            case {"op": "kill", "process": int(process)} if process in self.workers:
                self._remove(process)
                return {}, []
            case {"op": "verifier", "dataset": int(index), "user": str(name)}:
                return {"verifier": str(self._verifier(index, name))}, []
            case {"op": "token", "dataset": int(index), "hash": str(hashed)} if 0 <= index < len(self.datasets):
                return {"user": self._holder(self.datasets[index], hashed)}, []
            case {"op": "subject", "dataset": int(index), "subject": str(subject)} if 0 <= index < len(self.datasets):
                return {"user": self._of_subject(self.datasets[index], subject)}, []
            case {"op": "keys"} if self._issuer is not None:
                return self._fetch(self._issuer)
        return {}, []

    def _verifier(self, index: int, name: str) -> Verifier:
        """The verifier of a user, who is an analyst too; else one that nothing meets."""
        found: Verifier | None = None
        if 0 <= index < len(self.datasets) and name in _analysts(self.datasets[index]):
            users = self._read(lambda: read_users(self.datasets[index].users)) or {}
            found = Verifier.read(users.get(name, ""))
        return found or Verifier.of_nobody(f"{index} {name}", self._secret)

    def _holder(self, dataset: ServedDataset, hashed: str) -> str | None:
        """The name that a token stands for: of a declared analyst, or OWNER; None for any other token."""
        found = self._read(lambda: holder_of(tokens_file(dataset.users), hashed))
        return found.name if found is not None and found.name in (OWNER, *_analysts(dataset)) else None

    def _of_subject(self, dataset: ServedDataset, subject: str) -> str | None:
        """The declared analyst whom a subject of the issuer stands for, as the file says now."""
        path = self.options.oidc
        issuer = None if path is None else self._read(lambda: read_issuer(path))
        name = None if issuer is None else issuer.subjects.get(subject)
        return name if name in _analysts(dataset) else None

    def _read(self, work: Callable[[], Result]) -> Result | None:
        """Read one of the owner's files; None where it cannot be read, which is told."""
        try:
            return work()
        except Error as problem:
            self.told(str(problem))
            return None

    def _fetch(self, issuer: Issuer) -> tuple[dict[str, Json], list[socket.socket]]:
        """Start the process that fetches the issuer's keys, in place of any that still tries."""
        if self._fetching is not None:
            self._fetching.kill()
            self._fetching.wait()
        own, theirs = socket.socketpair()
        with theirs:
            words = (str(theirs.fileno()), issuer.url, self.options.account or "")
            self._fetching = _process((*_PYTHON, "dpsql.clients.server.fetching", *words), [theirs], {}, quiet=True)
        return {}, [own]

    def _start(self, dataset: ServedDataset) -> tuple[dict[str, Json], list[socket.socket]]:
        own, theirs = socket.socketpair()
        spill = Path(tempfile.mkdtemp(prefix="dpsql-worker-"))
        told: dict[str, Json] = {
            "schema": str(dataset.path),
            **reaching.of_worker(dataset.schema, dataset.ledger, spill),
        }
        with theirs:
            command = (*_PYTHON, "dpsql.clients.server.worker", str(theirs.fileno()), json.dumps(told))
            process = _process(command, [theirs], {"TMPDIR": str(spill)}, quiet=True)
        self.workers[process.pid] = RunningWorker(process, spill, dataset.schema.limits.memory + SPARE)
        return {"process": process.pid}, [own]

    def _front(
        self, control: socket.socket, listener: socket.socket, http: socket.socket | None
    ) -> subprocess.Popen[bytes]:
        options = self.options
        limits = [(one.schema.name, one.schema.limits) for one in self.datasets]
        told = {
            "datasets": [{"name": name, "seconds": float(one.seconds + one.plan_seconds)} for name, one in limits],
            "control": control.fileno(),
            "listener": listener.fileno(),
            "http": None if http is None else http.fileno(),
            "certificate": str(options.certificate or ""),
            "key": str(options.key or ""),
            "tls_required": not options.listen.is_loopback,
            "issuer": None if self._issuer is None else [self._issuer.url, self._issuer.audience],
            **{
                name: getattr(options, name)
                for name in ("account", "workers", "most_clients", "most_of_user", "log_statements")
            },
        }
        command = (*_PYTHON, "dpsql.clients.server.front", json.dumps(told))
        return _process(command, [control, listener, *([] if http is None else [http])], {}, quiet=False)

    # --- the end of processes -------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Bury workers that ended, end those that take too much memory, remember the newest charges, which workers cannot. Raises 705.

        Why  a worker that is broken open may write the ledger: charges that it takes out of it are missed here, and by whoever
             opens it next
        """
        if self._fetching is not None and self._fetching.poll() is not None:
            self._fetching = None
        for pid, worker in list(self.workers.items()):
            if worker.process.poll() is not None or _memory(pid) > worker.most:
                self._remove(pid)
        for dataset in self.datasets:
            self._remember(dataset)

    def _remember(self, dataset: ServedDataset) -> None:
        try:
            dataset.ledger.remember()
        except Error as problem:
            if problem.code == ROLLED_BACK:
                raise
            self.told(str(problem))

    def _remove(self, pid: int) -> None:
        worker = self.workers.pop(pid)
        worker.process.kill()
        worker.process.wait()
        shutil.rmtree(worker.spill, ignore_errors=True)

    def _end(self, control: socket.socket) -> None:
        self._ended = True
        control.shutdown(socket.SHUT_RDWR)

    def _finish(self, front: subprocess.Popen[bytes]) -> None:
        front.terminate()
        front.wait()
        if self._fetching is not None:
            self._fetching.kill()
            self._fetching.wait()
        for pid in list(self.workers):
            self._remove(pid)
        for dataset in self.datasets:
            dataset.ledger.close()


def _served(path: Path, users: Path | None, others: Sequence[ServedDataset]) -> ServedDataset:
    """A dataset, with its ledger open for as long as it is served: so the files beside the ledger stay there for the workers."""
    schema = read_schema(path)
    require_served(schema)
    if any(other.schema.name == schema.name for other in others):
        raise error(802, f"two datasets have the name {schema.name}", hint="give one of them another [dataset] name")
    place = users if users is not None else users_file(schema)
    read_users(place)
    ledger = Ledger.open(default_ledger(schema), ledger_identity(schema))
    ledger.store.write(lambda connection: None)
    return ServedDataset(schema, path.resolve(), ledger, place)


def _analysts(dataset: ServedDataset) -> list[str]:
    return [analyst.name for analyst in dataset.schema.analysts or ()]


def _listener(place: Address) -> socket.socket:
    """Raises 802 where the address cannot be had."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        return socket.create_server((place.host, place.port), family=family)
    except OSError as problem:
        why = problem.strerror or "it is no address of this machine"
    raise error(802, f"{place} cannot be listened on: {why}", hint="choose another with --listen or --http")


def _process(
    command: Sequence[str], passed: Sequence[socket.socket], environment: dict[str, str], *, quiet: bool
) -> subprocess.Popen[bytes]:
    """Start a process of the server's own, in a session of its own, so that Ctrl-C in a terminal reaches the supervisor alone.

    quiet  whether it may write nowhere: a trace could hold what it computed
    """
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        command,
        pass_fds=[one.fileno() for one in passed],
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere if quiet else None,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        start_new_session=True,
    )


def _memory(process: int) -> int:
    """[bytes] that a process holds; 0 where it cannot be told."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
