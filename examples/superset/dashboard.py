"""Makes what the example shows: Superset's own tables, a login, the database, two datasets, ten charts, one dashboard."""

import json
import os
from pathlib import Path
from typing import Any

from flask_migrate import upgrade
from superset.app import create_app

# A dataset of Superset can be a query; its options are the price of each statement that is asked of it. Superset drops comments.
YEARS = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2) site, female, year, age, child, md_visits
FROM person_year JOIN person USING (person_id)"""
# The last band is open: the guard refuses a filter that could leave a few people in a band.
BAND = {
    "expressionType": "SQL",
    "label": "age from",
    "sqlExpression": "CAST(FLOOR(LEAST(age, 69) / 10) * 10 AS INTEGER)",
}
SERIES = {"row_limit": 1000, "show_legend": True, "x_axis_title": "", "truncate_metric": True}


def with_error(name: str) -> list[str]:
    """A metric, and the ends of its 95 % interval."""
    return [f"{name}, at least", name, f"{name}, at most"]


# Of each dataset: its metrics, and how their numbers are shown. Each comes with its error; all of them are one release at one price.
METRICS = {
    "person": {
        "people": ("COUNT(*)", ",d"),
        "mean income": ("AVG(income)", ",.0f"),
        "mean health": ("AVG(mental_health_index)", ".1f"),
    },
    "years": {"person-years": ("COUNT(*)", ",d"), "visits": ("AVG(md_visits)", ".1f")},
}
# Prices are shown before they are paid; what would show rows of people is not offered.
EXTRA = {"cost_estimate_enabled": True, "disable_drill_to_detail": True, "disable_data_preview": True}
# Title, width of twelve, dataset, kind, settings.
CHARTS: list[tuple[str, int, str, str, dict[str, Any]]] = [
    ("People", 3, "person", "big_number_total", {"metric": "people"}),
    ("Plus or minus, 95 %", 3, "person", "big_number_total", {"metric": "people, plus-minus"}),
    ("Mean income", 3, "person", "big_number_total", {"metric": "mean income"}),
    ("Plus or minus, dollars", 3, "person", "big_number_total", {"metric": "mean income, plus-minus"}),
    ("People by site", 6, "person", "echarts_timeseries_bar",
     {"x_axis": "site", "xAxisForceCategorical": True, "metrics": with_error("people"), **SERIES}),
    ("Visits to physicians by year", 6, "years", "echarts_timeseries_line",
     {"x_axis": "year", "xAxisForceCategorical": True, "metrics": with_error("visits"), **SERIES}),
    ("Sites compared", 6, "person", "table",
     {"query_mode": "aggregate", "groupby": ["site"], "metrics": with_error("mean income") + with_error("mean health")}),
    ("Sites and sex", 6, "person", "pivot_table_v2",
     {"groupbyRows": ["site"], "groupbyColumns": ["female"], "metrics": with_error("people"), "metricsLayout": "COLUMNS",
      "aggregateFunction": "Sum", "row_limit": 1000}),
    ("Person-years by age", 6, "years", "echarts_timeseries_bar",
     {"x_axis": BAND, "xAxisForceCategorical": True, "metrics": with_error("person-years"), **SERIES}),
    ("Visits of children and adults", 6, "years", "table",
     {"query_mode": "aggregate", "groupby": ["child", "female"], "metrics": with_error("person-years") + with_error("visits")}),
]  # fmt: skip


def main(address: str) -> None:
    """address  of the data, as the dialect for SQLAlchemy reads it"""
    app = create_app()
    with app.app_context():
        upgrade(directory=str(Path(app.root_path) / "migrations"))
        login = the_login(os.environ["SUPERSET_PASSWORD"])
        from superset import db
        from superset.models.core import Database
        from superset.utils.core import override_user

        with override_user(login):
            if not db.session.query(Database).count():
                make(address)
                db.session.commit()


def the_login(password: str) -> Any:
    """The user admin, who has this password from now on."""
    from superset import appbuilder, security_manager

    admin = security_manager.find_user("admin")
    if admin is None:
        appbuilder.add_permissions(update_perms=True)
        security_manager.sync_role_definitions()
        role = security_manager.find_role("Admin")
        return security_manager.add_user("admin", "The", "Admin", "admin@localhost", role, password=password)
    security_manager.reset_password(admin.id, password)
    return admin


def make(uri: str) -> None:
    from superset import db
    from superset.models.core import Database

    database = Database(database_name="randhie", expose_in_sqllab=True, extra=json.dumps(EXTRA))
    database.set_sqlalchemy_uri(uri)
    db.session.add(database)
    datasets = {"person": dataset(database, "person"), "years": dataset(database, "years", YEARS)}
    db.session.flush()
    charts = [chart(datasets[name], title, kind, settings) for title, _, name, kind, settings in CHARTS]
    db.session.flush()
    dashboard(datasets["person"].id, charts)


def dataset(database: Any, name: str, sql: str | None = None) -> Any:
    """A table, or a query over tables. Its columns are read off the declared schema, free."""
    from superset import db
    from superset.connectors.sqla.models import SqlaTable, SqlMetric

    table = SqlaTable(table_name=name, database=database, schema=None if sql else "main", sql=sql)
    db.session.add(table)
    for metric, (value, shown) in METRICS[name].items():
        low, high = f"dp_low({value})", f"dp_high({value})"
        expressions = {"": value, ", at least": low, ", at most": high, ", plus-minus": f"({high} - {low}) / 2"}
        table.metrics += [
            SqlMetric(metric_name=f"{metric}{which}", expression=text, d3format=shown)
            for which, text in expressions.items()
        ]
    db.session.flush()
    table.fetch_metadata()
    return table


def chart(table: Any, title: str, kind: str, settings: dict[str, Any]) -> Any:
    from superset import db
    from superset.models.slice import Slice

    params = {"datasource": f"{table.id}__table", "viz_type": kind, **settings}
    made = Slice(
        slice_name=title, viz_type=kind, datasource_type="table", datasource_id=table.id, params=json.dumps(params)
    )
    db.session.add(made)
    return made


def dashboard(people: int, charts: list[Any]) -> None:
    from superset import db
    from superset.models.dashboard import Dashboard

    filters = [a_filter("Site", "site", people), a_filter("Female", "female", people)]
    db.session.add(
        Dashboard(
            dashboard_title="RAND Health Insurance Experiment",
            slug="randhie",
            published=True,
            slices=charts,
            position_json=json.dumps(layout(charts)),
            json_metadata=json.dumps({"native_filter_configuration": filters, "cross_filters_enabled": False}),
        )
    )


def layout(charts: list[Any]) -> dict[str, Any]:
    """Rows of twelve columns."""
    rows: list[list[str]] = [[]]
    placed: dict[str, Any] = {}
    used = 0
    for made, (_, width, _, kind, _) in zip(charts, CHARTS, strict=True):
        if used + width > 12:
            rows.append([])
            used = 0
        used += width
        name = f"CHART-{made.id}"
        height = 20 if kind == "big_number_total" else 50
        meta = {"chartId": made.id, "sliceName": made.slice_name, "width": width, "height": height}
        placed[name] = {"type": "CHART", "id": name, "children": [], "meta": meta}
        rows[-1].append(name)
    for number, row in enumerate(rows):
        meta = {"background": "BACKGROUND_TRANSPARENT"}
        placed[f"ROW-{number}"] = {"type": "ROW", "id": f"ROW-{number}", "children": row, "meta": meta}
    grid = [f"ROW-{number}" for number in range(len(rows))]
    return placed | {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": grid, "parents": ["ROOT_ID"]},
    }


def a_filter(title: str, column: str, table: int) -> dict[str, Any]:
    """A box on the left, whose values are the declared ones: listing them is free."""
    return {
        "id": f"NATIVE_FILTER-{column}",
        "type": "NATIVE_FILTER",
        "filterType": "filter_select",
        "name": title,
        "targets": [{"datasetId": table, "column": {"name": column}}],
        "scope": {"rootPath": ["ROOT_ID"], "excluded": []},
        "controlValues": {"multiSelect": True, "enableEmptyFilter": False},
        "defaultDataMask": {"extraFormData": {}, "filterState": {}, "ownState": {}},
        "cascadeParentIds": [],
    }


if __name__ == "__main__":
    main(os.environ["DPSQL_ADDRESS"])
