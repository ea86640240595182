"""Files that the worker of a dataset may reach: its data and declarations, and the ledger's own files, which are there already."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.record import snapshot_folder
from dpsql.clients.dbapi.packed import Json
from dpsql.clients.server.confinement import network_files, python_files
from dpsql.clients.server.users import SUFFIX
from dpsql.dataset.binding import state_folder
from dpsql.engines.registry import kind_for
from dpsql.schema.model import Schema

LEDGER = ".ledger"


def of_worker(schema: Schema, ledger: Ledger, spill: Path) -> dict[str, Json]:
    """Reach of a worker, as JSON for its command line.

    spill  its own folder
    """
    file = ledger.store.file
    assert file is not None
    written = [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))]
    network = all(place.beside is None for place in kind_for(schema).places(schema))
    read = [
        *python_files(),
        *(network_files() if network else ()),
        *_data(schema, file),
        *filter(None, (snapshot_folder(ledger), state_folder())),
    ]
    files = {
        "read": dict.fromkeys(read),
        "write": written,
        "own": [spill],
        "listed": [file.parent, schema.folder.resolve()],
    }
    return {
        "network": network,
        **{name: [str(path) for path in paths if path.exists()] for name, paths in files.items()},
    }


def _data(schema: Schema, ledger: Path) -> Iterator[Path]:
    """The schema's file and source, without the ledgers and users that stand beside them."""
    folder = schema.folder.resolve()
    for place in {folder, Path(os.path.realpath(folder / schema.source))}:
        if not place.is_dir():
            yield place
            continue
        for path in place.iterdir():
            if LEDGER not in path.name and SUFFIX not in path.name and not path.name.startswith(ledger.name):
                yield path
    for table in schema.tables:
        yield Path(os.path.realpath(folder / schema.source / table.source))
