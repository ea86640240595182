"""Dashboards as Superset exports them: a zip of YAML with dashboards, charts, datasets and databases.

Needs PyYAML; Superset itself is not asked. What of a file is not there or has another shape reads as nothing: what is made of it is a
set of statements, which are planned like any other.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from dpsql.core.errors import Error, error

MOST_FILES = 10_000
MOST_BYTES = 2**24
"""Of one file, and of all of them the half of a thousand times that: what an export of text has at most."""
MOST_BITS = 128
"""Of a number, as of any that SQL knows; Python prints no longer ones than of some thousand digits."""
_KINDS = ("dashboards", "charts", "datasets", "databases")
Table = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ExportedColumn:
    """A column of a dataset.

    sql   what it is in SQL; "" where it is one of the table
    type  in the words of the database
    """

    sql: str
    type: str
    is_time: bool


@dataclass(frozen=True, slots=True)
class ExportedDataset:
    """A table, or a query over tables.

    relation  behind FROM
    metrics   by name, in SQL
    """

    relation: str
    columns: Mapping[str, ExportedColumn]
    metrics: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ExportedChart:
    """A chart on a dashboard.

    number  that filters call it by
    within  what it stands in, such as a tab
    """

    title: str
    number: str
    within: frozenset[str]
    dataset: ExportedDataset
    params: Table


@dataclass(frozen=True, slots=True)
class ExportedFilter:
    """A filter of a dashboard.

    column    that it chooses values of; "" where it chooses something else
    chosen    the conditions that stand when the dashboard is opened
    excluded  the numbers of charts that it leaves alone
    within    what the others stand in
    """

    name: str
    kind: str
    column: str
    chosen: Sequence[Table]
    time_range: str
    excluded: tuple[str, ...]
    within: frozenset[str]

    def reaches(self, chart: ExportedChart) -> bool:
        return chart.number not in self.excluded and bool(self.within & chart.within)


@dataclass(frozen=True, slots=True)
class ExportedDashboard:
    """Charts and filters.

    crossed  whether a click on a chart's group filters the others
    """

    charts: tuple[ExportedChart, ...]
    filters: tuple[ExportedFilter, ...]
    crossed: bool


def read_export(path: str) -> list[ExportedDashboard]:
    """The dashboards of an export. Raises 802 where it cannot be read as one."""
    files = _files(path)
    vendors = {words(one.get("uuid")): words(one.get("sqlalchemy_uri")) for one in files["databases"]}
    datasets = {words(one.get("uuid")): _dataset(one, vendors) for one in files["datasets"]}
    charts = {words(one.get("uuid")): one for one in files["charts"]}
    found = [_dashboard(one, charts, datasets) for one in files["dashboards"]]
    if not any(one.charts for one in found):
        raise _unread("there is no dashboard with a chart in it")
    return found


def _files(path: str) -> dict[str, list[Table]]:
    try:
        import yaml
    except ImportError:
        raise error(802, "--dashboard needs PyYAML", hint="install the extra: pip install 'dpsql[workload]'") from None
    found: dict[str, list[Table]] = {kind: [] for kind in _KINDS}
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if one.filename.endswith((".yaml", ".yml"))]
            sizes = [one.file_size for one in members]
            if len(members) > MOST_FILES or max(sizes, default=0) > MOST_BYTES or sum(sizes) > MOST_BYTES * 500:
                raise _unread("it is too large for one")
            for member in members:
                kind = next((part for part in member.filename.split("/")[:-1] if part in _KINDS), None)
                if kind is not None:
                    found[kind].append(table(yaml.safe_load(archive.read(member))))
    except Error:
        raise
    except OSError as problem:
        raise error(
            802, f"{path} cannot be read: {problem.strerror or 'it is no file'}", hint="name an export"
        ) from None
    except Exception:
        # zlib, YAML and its dates raise what they like about a file that somebody else made
        raise _unread("its files are not what an export holds") from None
    return found


def _unread(why: str) -> Error:
    return error(
        802,
        f"it is no dashboard as Superset exports it: {why}",
        hint="in Superset's list of dashboards choose Export, and name the .zip",
    )


def _dataset(told: Table, vendors: Mapping[str, str]) -> ExportedDataset:
    """A dataset of an export.

    Why  a schema of another database says nothing here: the question is which cubes would answer its charts
    """
    query, name = words(told.get("sql")).strip().rstrip(";"), quoted(words(told.get("table_name")))
    here = vendors.get(words(told.get("database_uuid")), "dpsql").startswith("dpsql")
    schema = words(told.get("schema")) if here else ""
    columns = {
        words(one.get("column_name")): ExportedColumn(
            words(one.get("expression")), words(one.get("type")).upper(), bool(one.get("is_dttm"))
        )
        for one in map(table, items(told.get("columns")))
    }
    metrics = {
        words(one.get("metric_name")): words(one.get("expression")) for one in map(table, items(told.get("metrics")))
    }
    plain = f"{quoted(schema)}.{name}" if schema else name
    return ExportedDataset(f"({query}) AS virtual_table" if query else plain, columns, metrics)


def _dashboard(told: Table, charts: Mapping[str, Table], datasets: Mapping[str, ExportedDataset]) -> ExportedDashboard:
    metadata = table(told.get("metadata"))
    placed: list[ExportedChart] = []
    for item in map(table, table(told.get("position")).values()):
        meta = table(item.get("meta"))
        chart = charts.get(words(meta.get("uuid")))
        dataset = datasets.get(words(chart.get("dataset_uuid"))) if chart is not None else None
        if chart is not None and dataset is not None:
            within = frozenset({"ROOT_ID", *map(words, items(item.get("parents")))})
            title = words(chart.get("slice_name"))
            placed.append(ExportedChart(title, words(meta.get("chartId")), within, dataset, table(chart.get("params"))))
    filters = [_filter(one) for one in map(table, items(metadata.get("native_filter_configuration")))]
    crossed = metadata.get("cross_filters_enabled", True) is not False
    return ExportedDashboard(tuple(placed), tuple(one for one in filters if one is not None), crossed)


def _filter(told: Table) -> ExportedFilter | None:
    if told.get("type") == "DIVIDER":
        return None
    target = next(map(table, items(told.get("targets"))), {})
    scope, chosen = table(told.get("scope")), table(table(told.get("defaultDataMask")).get("extraFormData"))
    return ExportedFilter(
        words(told.get("name")),
        words(told.get("filterType")),
        words(table(target.get("column")).get("name")),
        [table(one) for one in items(chosen.get("filters"))],
        words(chosen.get("time_range")),
        tuple(map(words, items(scope.get("excluded")))),
        frozenset(map(words, items(scope.get("rootPath", ["ROOT_ID"])))),
    )


def table(told: object) -> Table:
    return told if isinstance(told, dict) else {}


def items(told: object) -> list[object]:
    """A list, or the one thing that is told."""
    return told if isinstance(told, list) else [] if told is None or told == "" else [told]


def words(told: object) -> str:
    """Text, a number, a truth or a time as text; "" for all else.

    Why  lists in lists that stand for one another, of a few letters in YAML, would be more text than there is memory
    """
    if isinstance(told, int) and told.bit_length() > MOST_BITS:
        return ""
    return str(told) if isinstance(told, (str, int, float, date)) else ""


def quoted(name: str) -> str:
    """A name in SQL, in quotation marks where it needs them."""
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
