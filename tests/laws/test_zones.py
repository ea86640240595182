"""Time zones: what is known of them holds in the engine."""

from __future__ import annotations

import duckdb

from dpsql.expressions.functions.zones import OFFSETS


def test_the_engine_knows_every_zone_and_its_clocks_are_as_far_from_utc_as_the_table_says() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT TIMESTAMP '1970-01-01' + to_days(i) AS x FROM range(0, 36525, 9) AS r(i)"
        )
        connection.execute("INSERT INTO t VALUES ('9999-12-30'), ('2500-07-01')")
        for zone, (least, most) in OFFSETS.items():
            ahead = f"date_diff('second', x, x AT TIME ZONE 'UTC' AT TIME ZONE '{zone}')"
            behind = f"date_diff('second', x AT TIME ZONE '{zone}' AT TIME ZONE 'UTC', x)"
            found = connection.execute(
                f"SELECT min({ahead}), max({ahead}), min({behind}), max({behind}) FROM t"
            ).fetchone()
            assert found is not None
            assert 60 * least <= min(found) <= max(found) <= 60 * most, zone


def test_no_clock_was_ever_further_from_utc_than_the_proof_allows() -> None:
    times = "(VALUES (TIMESTAMP '0001-01-02'), ('9999-12-30'), ('1850-01-01'), ('1941-06-01')) AS t(x)"
    with duckdb.connect() as connection:
        for zone in OFFSETS:
            there, here = f"x AT TIME ZONE 'UTC' AT TIME ZONE '{zone}'", f"x AT TIME ZONE '{zone}' AT TIME ZONE 'UTC'"
            for apart in connection.execute(f"SELECT epoch({there} - x), epoch({here} - x) FROM {times}").fetchall():
                assert max(map(abs, apart)) <= 16 * 3600, zone
