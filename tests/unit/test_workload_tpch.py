"""TPC-H through tpchgen-cli: streamed, uniform or skewed, and clear where the program is missing or fails."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semistream.errors import ConfigError, SemistreamError
from semistream.workloads import tpch
from semistream.workloads.tpch import CUSTOMER_SCHEMA, ORDERS_SCHEMA, TpchSource, write_parquet
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

SCALE = 0.02
CUSTOMERS, ORDERS = 3_000, 30_000


def whole(source: TpchSource) -> pa.Table:
    return pa.Table.from_batches(source.batches(10_000), schema=source.schema).combine_chunks()


def test_customers_are_those_of_the_parquet_files(tmp_path: Path) -> None:
    customers = TpchSource(table="customer", scale=SCALE)
    streamed = whole(customers)
    assert customers.rows == streamed.num_rows == CUSTOMERS
    assert streamed.schema == CUSTOMER_SCHEMA
    files = write_parquet("customer", tmp_path / "customers", scale=SCALE, parts=2)
    written = pa.concat_tables(pq.read_table(file) for file in files).cast(CUSTOMER_SCHEMA)
    assert streamed.sort_by("c_custkey").equals(written.sort_by("c_custkey").combine_chunks())


def test_orders_as_tpch_has_them_use_two_of_three_customers() -> None:
    orders = whole(TpchSource(table="orders", scale=SCALE))
    assert orders.schema == ORDERS_SCHEMA
    assert orders.num_rows == ORDERS
    keys = orders["o_custkey"].to_numpy()
    assert (keys % 3 != 0).all()
    assert keys.max() <= CUSTOMERS


def test_skewed_orders_differ_in_their_customers_alone() -> None:
    skewed = whole(TpchSource(table="orders", scale=SCALE, exponent=1.0, seed=3))
    plain = whole(TpchSource(table="orders", scale=SCALE))
    assert skewed.drop(["o_custkey"]).equals(plain.drop(["o_custkey"]))
    keys = skewed["o_custkey"].to_numpy()
    assert keys.min() >= 1
    assert keys.max() <= CUSTOMERS
    per_customer = np.sort(np.bincount(keys))[::-1]
    zipf = ZipfKeys(ZipfConfig(keys=CUSTOMERS, exponent=1.0))
    assert per_customer[0] / ORDERS == pytest.approx(zipf.top_probability(1), abs=0.01)
    assert per_customer[:300].sum() / ORDERS == pytest.approx(zipf.top_probability(300), abs=0.02)


def test_any_cut_gives_the_same_orders() -> None:
    source = TpchSource(table="orders", scale=SCALE, exponent=0.8)
    later = pa.Table.from_batches(source.batches(777, first=12_345)).combine_chunks()
    assert later.equals(whole(source).slice(12_345).combine_chunks())


def test_a_reader_may_stop_early() -> None:
    batches = TpchSource(table="orders", scale=1.0).batches(100)
    assert next(batches).num_rows == 100
    batches.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "bad", [{"scale": 0}, {"scale": -1}, {"scale": 1e-6}, {"scale": float("nan")}, {"exponent": -0.5}]
)
def test_bad_options_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError) as refused:
        TpchSource(table="orders", **bad)
    assert refused.value.hint


def test_a_missing_program_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for call in (
        lambda: next(TpchSource(table="customer").batches(1)),
        lambda: write_parquet("customer", tmp_path / "c", scale=1, parts=1),
    ):
        with pytest.raises(SemistreamError, match="not installed") as told:
            call()
        assert "pip install" in told.value.hint


@pytest.mark.parametrize("output", ["", "c_custkey,c_name\\n1,x\\n"])
def test_what_the_program_complains_about_is_told(
    output: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "tpchgen-cli"
    program.write_text(f"#!/bin/sh\nprintf '{output}'\necho 'no space left' >&2\nexit 3\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(tpch, "_program", lambda: str(program))
    with pytest.raises(SemistreamError, match="no space left"):
        list(TpchSource(table="customer").batches(10))
    with pytest.raises(SemistreamError, match="no space left"):
        write_parquet("customer", tmp_path / "customers", scale=1, parts=1)
