"""Virtual tables: the pages a shard writer would write, and the joins of a table of these rows."""

from __future__ import annotations

import ctypes
import io
import itertools
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.oracle import MASK, P1, joined
from tests.stores import lookup
from tests.twins import mix64

from semistream.access_path.planned import ReadCosts
from semistream.core.contracts import JOIN_KINDS
from semistream.core.keys import KeyEncoder
from semistream.core.metrics import METRIC_NAMES
from semistream.cost_model.profiles import NVME
from semistream.errors import ConfigError, CorruptionError
from semistream.joins import ALGORITHMS, minimum_task_bytes, resolve_shape, start_join
from semistream.master_table import _page_kernels as page_kernels
from semistream.master_table.fences import Fences
from semistream.master_table.shard_file import ShardWriter
from semistream.master_table.virtual import (
    BUFFER_BYTES_MAX,
    PAGES_AT_ONCE_MAX,
    SCHEMA,
    VirtualTable,
    VirtualTableConfig,
)
from semistream.simulation.run import DeviceCosts
from semistream.testing.table import TableContract

I64_MAX = 2**63 - 1
COSTS = {
    "lookups": ReadCosts(page_seconds=0.0, byte_seconds=1.0),
    "scans": ReadCosts(page_seconds=1.0, byte_seconds=0.0),
}


class TestTables(TableContract):
    pass


@st.composite
def configs(draw: st.DrawFn, rows_max: int = 600) -> VirtualTableConfig:
    rows_per_key = draw(st.sampled_from([1, 2, 3, 7, 40]))
    page_bytes = draw(st.sampled_from([512, 1024, 8192, 1 << 17]))
    return VirtualTableConfig(
        rows=draw(st.integers(0, rows_max // rows_per_key)) * rows_per_key,
        rows_per_key=rows_per_key,
        row_bytes=draw(st.sampled_from([22, 23, 29, 30, 60, 120, 128, 277, 300, 494])),
        key_stride=draw(st.sampled_from([1, 2, 5, 1 << 40])),
        page_bytes=page_bytes,
        seed=draw(st.sampled_from([0, 1, 12345, I64_MAX])),
    )


def everything(table: VirtualTable) -> pa.Table:
    return table.rows_at(np.arange(table.rows))


def pages_of(table: VirtualTable, pages: list[int] | None = None) -> bytes:
    """The bytes of these pages (default: all), fetched as many at a time as there may be."""
    shard = table.open_shard(0)
    wanted = np.arange(table.pages) if pages is None else np.array(pages, np.int64)
    content = b""
    for at in range(0, wanted.size, shard.pages_at_once):
        found = shard.fetch(wanted[at : at + shard.pages_at_once])
        content += b"".join(ctypes.string_at(address, table.page_bytes) for address in found.tolist())
    shard.close()
    return content


def written(table: VirtualTable, appended: list[int] | None = None) -> tuple[bytes, Fences]:
    """The table's rows as a real shard file: its pages, and its fences. `appended` begin a page each."""
    out = io.BytesIO()
    writer = ShardWriter(
        out, page_bytes=table.page_bytes, layout=table.layout, fixed=True, seed=table.config.seed
    )
    at = 0
    for count in [table.rows - sum(appended or []), *(appended or [])]:
        columns = [column.combine_chunks() for column in table.rows_at(np.arange(at, at + count)).columns]
        writer.write(KeyEncoder([pa.int64()]).encode(columns[:1]), columns[1:])
        writer._flush()
        at += count
    info = writer.close("name")
    content = np.frombuffer(out.getvalue(), np.uint8)
    end = info.pages * table.page_bytes
    fences = Fences.from_bytes(content[end : end + info.fence_bytes], pages=info.pages, fixed=True)
    return content[:end].tobytes(), fences


def payload_twin(config: VirtualTableConfig, row: int) -> str:
    base = mix64(mix64((config.seed + P1) & MASK) ^ row % config.rows_per_page)
    text = ""
    for at in range(config.payload_bytes):
        word = (base + at // 8 * P1) & MASK
        text += chr(32 + ((word ^ word >> 32) >> 8 * (at % 8) & 63))
    return text


# -- rows and pages ----------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(config=configs())
def test_pages_are_those_that_a_shard_writer_writes(config: VirtualTableConfig) -> None:
    table = VirtualTable(config)
    content, _ = written(table)
    assert len(content) == table.bytes == table.pages * config.page_bytes
    assert pages_of(table) == content


@given(config=configs(rows_max=60))
def test_rows_are_what_the_docstring_says(config: VirtualTableConfig) -> None:
    table = VirtualTable(config)
    rows = everything(table).to_pylist()
    assert rows == [
        {"key": n // config.rows_per_key * config.key_stride, "row": n, "payload": payload_twin(config, n)}
        for n in range(config.rows)
    ]


@pytest.mark.parametrize("page_bytes", [512, 8192, 1 << 16, 1 << 17])
@pytest.mark.parametrize("row_bytes", [22, 120, 276, 277, 281, 480])
def test_a_row_takes_row_bytes(page_bytes: int, row_bytes: int) -> None:
    """As the page store counts it: with checksum and key, without the row's offset in the page."""
    table = VirtualTable(VirtualTableConfig(rows=1000, row_bytes=row_bytes, page_bytes=page_bytes))
    rows = everything(table)
    values = [column.combine_chunks() for column in rows.columns[1:]]
    assert set((table.layout.sizes(values, 1000) + 4 + 8).tolist()) == {row_bytes}
    assert table.config.rows_per_page == (page_bytes - 16) // (row_bytes + table.layout.end_bytes)
    rows.validate(full=True)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(config=configs(), data=st.data())
def test_a_page_is_the_same_however_it_is_asked_for(config: VirtualTableConfig, data: st.DataObject) -> None:
    table = VirtualTable(config)
    content = pages_of(table)
    chosen = (
        data.draw(st.lists(st.integers(0, table.pages - 1), unique=True).map(sorted)) if table.pages else []
    )
    parts = [content[page * config.page_bytes : (page + 1) * config.page_bytes] for page in chosen]
    assert pages_of(VirtualTable(config), chosen) == b"".join(parts)


@given(config=configs(), data=st.data())
def test_without_sums_pages_are_the_same_but_for_these(
    config: VirtualTableConfig, data: st.DataObject
) -> None:
    table = VirtualTable(replace(config, sums=False))
    content = bytearray(pages_of(VirtualTable(config)))
    for page in range(table.pages):
        at = page * config.page_bytes
        content[at : at + 8] = bytes(8)
        count = int.from_bytes(content[at + 8 : at + 12], "little")
        for row in range(1, count + 1):
            row_at = at + config.page_bytes - row * config.row_bytes
            content[row_at : row_at + 4] = bytes(4)
    assert pages_of(table) == bytes(content)
    shard, pages = table.open_shard(0), np.arange(min(table.pages, 3))
    assert page_kernels.first_damaged(shard.fetch(pages), pages, config.page_bytes, shard.seed) == -1


@given(config=configs(rows_max=200), data=st.data())
def test_a_page_is_the_same_whatever_stood_in_its_place(
    config: VirtualTableConfig, data: st.DataObject
) -> None:
    table = VirtualTable(config)
    shard = table.open_shard(0)
    for _ in range(4):
        table.append(data.draw(st.integers(1, 50)) * config.rows_per_key)
        whole = pages_of(table)
        for chosen in data.draw(st.lists(st.lists(st.integers(0, table.pages - 1), max_size=9), max_size=5)):
            at = shard.fetch(np.array(chosen, np.int64)).tolist()
            for page, address in zip(chosen, at, strict=True):
                expected = whole[page * config.page_bytes :][: config.page_bytes]
                assert ctypes.string_at(address, config.page_bytes) == expected


def test_another_seed_makes_other_rows_and_other_sums() -> None:
    one, two = (VirtualTable(VirtualTableConfig(rows=100, seed=seed)) for seed in (1, 2))
    texts = [everything(table).column("payload").to_pylist() for table in (one, two)]
    period = one.config.rows_per_page
    assert len(set(texts[0]) | set(texts[1])) == 2 * period
    assert texts[0][period:] == texts[0][: 100 - period]
    shard, pages = one.open_shard(0), np.arange(2)
    assert page_kernels.first_damaged(shard.fetch(pages), pages, 8192, two.open_shard(0).seed) == 0


def test_pages_that_are_not_there_are_an_error() -> None:
    shard = VirtualTable(VirtualTableConfig(rows=100)).open_shard(0)
    for pages in ([2], [0, 1, 2], [-1], [-1, 0]):
        with pytest.raises(CorruptionError, match="not one of its 2 pages"):
            shard.fetch(np.array(pages))


@given(config=configs(), data=st.data())
def test_rows_of_keys(config: VirtualTableConfig, data: st.DataObject) -> None:
    table = VirtualTable(config)
    near = st.integers(-2, config.rows // config.rows_per_key + 2).map(lambda k: k * config.key_stride)
    keys = data.draw(st.lists(near | near.map(lambda k: k + 1), max_size=30))
    master = everything(table)
    by_key: dict[int, list[dict[str, object]]] = {}
    for row in master.to_pylist():
        by_key.setdefault(row["key"], []).append(row)
    found = table.rows_of(keys)
    assert found.schema == SCHEMA
    assert found.to_pylist() == [row for key in keys for row in by_key.get(key, [])]


# -- finding -----------------------------------------------------------------------------------------------


@given(config=configs(), data=st.data())
def test_keys_are_located_as_by_the_fences_of_the_pages(
    config: VirtualTableConfig, data: st.DataObject
) -> None:
    """A page store's fences are the brute force: they were taken from the pages."""
    table = VirtualTable(config)
    fences = written(table)[1]
    near = st.integers(-1, config.rows // config.rows_per_key + 1).map(lambda k: k * config.key_stride)
    anywhere = st.sampled_from([-I64_MAX - 1, -1, I64_MAX])
    shifts = st.sampled_from([-1, 0, 0, 1])
    drawn = st.lists(st.builds(lambda key, by: key + by, near, shifts) | anywhere, max_size=80)
    numbers = sorted(set(data.draw(drawn)))
    keys = KeyEncoder([pa.int64()]).encode([pa.array(numbers, pa.int64())])
    found, expected = table.open_shard(0).fences.locate(keys), fences.locate(keys)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


def test_the_largest_keys_and_tables_there_may_be() -> None:
    stride = I64_MAX // 99
    table = VirtualTable(VirtualTableConfig(rows=100, key_stride=stride, row_bytes=400, page_bytes=512))
    assert table.rows_of([99 * stride]).column("row").to_pylist() == [99]
    keys = KeyEncoder([pa.int64()]).encode([pa.array([98 * stride, 99 * stride, I64_MAX])])
    assert [each.tolist() for each in table.open_shard(0).fences.locate(keys)] == [[98, 99, 99]] * 2
    huge = VirtualTable(VirtualTableConfig(rows=(1 << 32) * 67))
    assert huge.pages == 1 << 32
    last = np.array([huge.pages - 1])
    shard = huge.open_shard(0)
    assert page_kernels.first_damaged(shard.fetch(last), last, 8192, shard.seed) == -1
    found, _ = lookup(huge, pa.table({"key": pa.array([huge.rows - 1, huge.rows])}))
    assert [(key, row) for key, row, _ in found] == [(huge.rows - 1, huge.rows - 1)]


# -- joining -----------------------------------------------------------------------------------------------


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    config=configs(),
    algorithm=st.sampled_from(sorted(ALGORITHMS)),
    how=st.sampled_from(sorted(JOIN_KINDS)),
    batch_rows=st.sampled_from([1, 7, 1 << 20]),
    more_memory=st.sampled_from([0, 100_000, 10 << 20]),
    costs=st.sampled_from(["lookups", "scans", None]),
    cached=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_join_equals_the_oracle(
    config: VirtualTableConfig,
    algorithm: str,
    how: str,
    batch_rows: int,
    more_memory: int,
    costs: str | None,
    cached: bool,
    seed: int,
) -> None:
    table, rng = VirtualTable(config), np.random.default_rng(seed)
    size = int(rng.integers(0, 40 if batch_rows == 1 else 400))
    keys = rng.integers(-2, config.rows // config.rows_per_key + 3, size) * config.key_stride
    keys += rng.integers(0, 2, size) * rng.integers(0, 2)  # some between two keys, where there is room
    stream = pa.table({"key": pa.array(keys, mask=rng.random(size) < 0.05), "id": pa.array(range(size))})
    found, metrics = lookup(
        table,
        stream,
        how=how,
        algorithm=algorithm,
        memory_bytes=minimum_task_bytes(table, [0], algorithm) + more_memory,
        batch_rows=batch_rows,
        costs=COSTS[costs] if costs else None,
        **({} if cached else {"region_source": lambda _: None}),
    )
    assert found == joined(stream, everything(table), stream_key=["key"], master_key=["key"], how=how)
    assert metrics.rows_in == size
    assert 0 < metrics.budget_peak_bytes <= metrics.budget_bytes


def test_the_pages_are_not_the_joins_memory() -> None:
    """As on a page store whose files are mapped; the table says how large its own buffer is."""
    table = VirtualTable(VirtualTableConfig(rows=10_000))
    shape = resolve_shape(
        pa.schema([("key", pa.int64())]), table, on="key", how="inner", columns=None, suffix=None
    )
    with start_join(table, shape, memory_bytes=minimum_task_bytes(table, [0])) as join:
        held = join.budget.by_name()
        assert held["page buffer"] == table.open_shard(0).buffer_bytes == 0
        assert held["fences"] == table.fence_bytes([0]) == 0


@pytest.mark.parametrize("page_bytes", [512, 8192, 1 << 17, 1 << 24])
def test_the_buffer_of_a_shard_is_bounded(page_bytes: int) -> None:
    shard = VirtualTable(VirtualTableConfig(rows=10_000, page_bytes=page_bytes)).open_shard(0)
    assert 1 <= shard.pages_at_once <= PAGES_AT_ONCE_MAX
    assert shard.pages_at_once * page_bytes <= max(BUFFER_BYTES_MAX, page_bytes)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(config=configs(), algorithm=st.sampled_from(sorted(ALGORITHMS)), seed=st.integers(0, 1000))
def test_without_sums_the_join_finds_and_counts_the_same(
    config: VirtualTableConfig, algorithm: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.integers(-2, config.rows // config.rows_per_key + 3, 300) * config.key_stride
    stream = pa.table({"key": pa.array(keys), "id": pa.array(range(300))})
    found = []
    for sums in (True, False):
        table = VirtualTable(replace(config, sums=sums))
        memory = minimum_task_bytes(table, [0], algorithm) + 100_000
        # Costs that are not measured, so that both decide alike.
        costs = DeviceCosts(NVME, config.page_bytes)
        rows, metrics = lookup(
            table, stream, how="left", algorithm=algorithm, memory_bytes=memory, batch_rows=50, costs=costs
        )
        found.append((rows, [getattr(metrics, name) for name in METRIC_NAMES if not name.endswith("_ns")]))
    assert found[0] == found[1]


# -- growing -----------------------------------------------------------------------------------------------


@given(config=configs(rows_max=200), steps=st.lists(st.integers(1, 60), max_size=5))
def test_a_grown_table_has_its_old_pages_and_new_ones(config: VirtualTableConfig, steps: list[int]) -> None:
    table = VirtualTable(config)
    shard, before = table.open_shard(0), pages_of(table)
    for step in steps:
        version, rows = table.version, table.rows
        assert table.append(step * config.rows_per_key) == table.version == version + 1
        assert table.rows == rows + step * config.rows_per_key
        assert (shard.info.rows, shard.info.pages) == (table.rows, table.pages)
    assert pages_of(table, list(range(len(before) // config.page_bytes))) == before
    content, fences = written(table, [step * config.rows_per_key for step in steps])
    assert pages_of(table) == content
    held = everything(table).column("key").to_numpy()
    numbers = np.unique(np.concatenate([held - 1, held, held + 1]))
    keys_sought = KeyEncoder([pa.int64()]).encode([pa.array(numbers, pa.int64())])
    found, expected = shard.fences.locate(keys_sought), fences.locate(keys_sought)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


def test_a_table_may_grow_from_nothing_while_a_join_reads_it() -> None:
    """Each batch is joined with the table of its time; without a front stage nothing is remembered."""
    config = VirtualTableConfig(rows=0, rows_per_key=3, key_stride=2, page_bytes=512)
    table = VirtualTable(config)
    stream = pa.table({"key": pa.array(range(2000)), "id": pa.array(range(2000))})
    shape = resolve_shape(stream.schema, table, on="key", how="left", columns=None, suffix=None)
    for costs in COSTS.values():
        with start_join(
            table, shape, memory_bytes=2 << 20, region_source=lambda _: None, costs=costs
        ) as join:
            for _ in range(4):
                expected = joined(
                    stream, everything(table), stream_key=["key"], master_key=["key"], how="left"
                )
                out = [*join.push(stream.to_batches()[0]), *join.flush()]
                assert sum(batch.num_rows for batch in out) == sum(expected.values())
                found = pa.Table.from_batches(out).sort_by([("id", "ascending"), ("row", "ascending")])
                assert found.column("row").drop_null().to_pylist() == list(range(table.rows))
                table.append(333)
            join.finish()


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_growing_in_the_middle_of_a_read_breaks_nothing(algorithm: str, costs: str) -> None:
    """What was there when a key came is found; what came meanwhile is found whole or not at all."""
    table = VirtualTable(VirtualTableConfig(rows=3003, rows_per_key=3, page_bytes=512))
    stream = pa.table({"key": pa.array(range(2000))})
    shape = resolve_shape(stream.schema, table, on="key", how="inner", columns=None, suffix=None)
    rows: list[int] = []
    with start_join(table, shape, algorithm=algorithm, memory_bytes=2 << 20, costs=COSTS[costs]) as join:
        for batch in itertools.chain(join.push(stream.to_batches()[0]), join.flush()):
            rows += batch.column("row").to_pylist()
            table.append(30)
        join.finish()
    assert table.version > 3
    assert set(range(3003)) <= set(rows)
    assert len(rows) == len(set(rows))
    counts = np.unique(np.array(rows) // 3, return_counts=True)[1]
    assert set(counts.tolist()) == {3}


def test_growing_in_another_thread_breaks_nothing() -> None:
    table = VirtualTable(VirtualTableConfig(rows=6700, row_bytes=120))
    stop = threading.Event()

    def grow() -> None:
        while not stop.is_set():
            table.append(1)
            stop.wait(0.0001)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        shard = table.open_shard(0)
        for _ in range(300):
            pages = np.arange(shard.info.pages)[-16:]
            assert page_kernels.first_damaged(shard.fetch(pages), pages, 8192, shard.seed) == -1
    finally:
        stop.set()
        thread.join()
    assert table.rows == 6700 + table.version - 1
    assert pages_of(table) == written(table, [1] * (table.version - 1))[0]


# -- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"rows": -1}, "rows=-1"),
        ({"rows": 1e8}, "rows=1"),
        ({"rows": True}, "rows=True"),
        ({"rows": 10, "rows_per_key": 3}, "last key"),
        ({"rows": 10, "rows_per_key": 0}, "rows_per_key=0"),
        ({"rows": 10, "key_stride": 0}, "key_stride=0"),
        ({"rows": 10, "key_stride": -2}, "key_stride=-2"),
        ({"rows": 10, "seed": -1}, "seed=-1"),
        ({"rows": 10, "page_bytes": 1000}, "page_bytes=1000"),
        ({"rows": 10, "page_bytes": 256}, "page_bytes=256"),
        ({"rows": 10, "page_bytes": 1 << 25}, "page_bytes="),
        ({"rows": 10, "row_bytes": 21}, "row_bytes=21"),
        ({"rows": 10, "row_bytes": 8175}, "row_bytes=8,175"),
        ({"rows": 10, "row_bytes": 278}, "row_bytes=278"),
        ({"rows": 10, "row_bytes": 280, "page_bytes": 1 << 17}, "row_bytes=280"),
        ({"rows": 10**15}, "too many"),
        ({"rows": 4, "key_stride": 1 << 62}, "too many"),
    ],
)
def test_bad_configs_are_refused(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        VirtualTableConfig(**wrong)  # type: ignore[arg-type]
    assert "Hint:" in str(caught.value)


def test_what_the_hints_name_works() -> None:
    for row_bytes in (22, 277, 279, 8174):
        VirtualTableConfig(rows=10, row_bytes=row_bytes)
    VirtualTableConfig(rows=10, row_bytes=281, page_bytes=1 << 17)
    VirtualTableConfig(rows=2, key_stride=1 << 62)


@pytest.mark.parametrize("rows", [0, -3, 1.5, 2, 1 << 60])
def test_appending_what_cannot_be_is_refused_and_changes_nothing(rows: float) -> None:
    table = VirtualTable(VirtualTableConfig(rows=9, rows_per_key=3))
    with pytest.raises(ConfigError) as caught:
        table.append(rows)  # type: ignore[arg-type]
    assert "Hint:" in str(caught.value)
    assert (table.rows, table.version) == (9, 1)
