"""Slow and obvious twins of what the package does fast, and the comparison of bags of rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa

MASK = (1 << 64) - 1
EXACT = Context(prec=80)  # Python's default context rounds to 28 digits
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def plain(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """The values as Python objects that compare exactly: moments as numbers, floats by their bits."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_floating(kind):
        bits = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
        known = column.is_valid().to_pylist()
        return [float(value).hex() if ok else None for value, ok in zip(bits, known, strict=True)]
    return column.to_pylist()


def rows_of(table: pa.Table | pa.RecordBatch) -> list[tuple[object, ...]]:
    if table.num_columns == 0:
        return [()] * table.num_rows
    return list(zip(*(plain(column) for column in table.columns), strict=True))


def bag(batches: pa.Table | Iterable[pa.RecordBatch]) -> Counter[tuple[object, ...]]:
    """How often each row occurs: what a join promises, since it promises no order."""
    if isinstance(batches, pa.Table):
        return Counter(rows_of(batches))
    found: Counter[tuple[object, ...]] = Counter()
    for batch in batches:
        found.update(rows_of(batch))
    return found


def joined(
    stream: pa.Table, master: pa.Table, *, stream_key: Sequence[str], master_key: Sequence[str], how: str
) -> Counter[tuple[object, ...]]:
    """The plain join by dictionary: stream columns, then the master's non-key columns."""
    values = [name for name in master.column_names if name not in master_key]
    matches: dict[tuple[object, ...], list[tuple[object, ...]]] = defaultdict(list)
    for key, row in zip(rows_of(master.select(master_key)), rows_of(master.select(values)), strict=True):
        if None not in key:
            matches[key].append(row)
    out: Counter[tuple[object, ...]] = Counter()
    for key, row in zip(rows_of(stream.select(stream_key)), rows_of(stream), strict=True):
        found = matches.get(key, []) if None not in key else []
        if how == "semi":
            out.update([row] if found else [])
        elif how == "anti":
            out.update([] if found else [row])
        else:
            out.update((*row, *each) for each in found)
            if how == "left" and not found:
                out.update([(*row, *[None] * len(values))])
    return out


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & MASK


def xxh64(content: bytes, seed: int) -> int:
    """XXH64, word by word as its specification has it."""

    def round_of(accumulator: int, lane: int) -> int:
        return _rotate((accumulator + lane * P2) & MASK, 31) * P1 & MASK

    at, size = 0, len(content)
    if size >= 32:
        accumulators = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while at + 32 <= size:
            for lane in range(4):
                word = int.from_bytes(content[at + 8 * lane : at + 8 * lane + 8], "little")
                accumulators[lane] = round_of(accumulators[lane], word)
            at += 32
        result = sum(_rotate(a, bits) for a, bits in zip(accumulators, (1, 7, 12, 18), strict=True)) & MASK
        for accumulator in accumulators:
            result = ((result ^ round_of(0, accumulator)) * P1 + P4) & MASK
    else:
        result = (seed + P5) & MASK
    result = (result + size) & MASK
    while at + 8 <= size:
        result ^= round_of(0, int.from_bytes(content[at : at + 8], "little"))
        result = (_rotate(result, 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= size:
        result ^= int.from_bytes(content[at : at + 4], "little") * P1 & MASK
        result = (_rotate(result, 23) * P2 + P3) & MASK
        at += 4
    for byte in content[at:]:
        result = _rotate(result ^ (byte * P5 & MASK), 11) * P1 & MASK
    result = (result ^ (result >> 33)) * P2 & MASK
    result = (result ^ (result >> 29)) * P3 & MASK
    return result ^ (result >> 32)


def spark_bytes(value: object, kind: pa.DataType) -> bytes:
    """What Spark's xxhash64 feeds to XXH64 for a value that is not null."""
    if pa.types.is_boolean(kind):
        return int(bool(value)).to_bytes(4, "little")
    if pa.types.is_date32(kind):
        return int(value).to_bytes(4, "little", signed=True)  # type: ignore[call-overload]
    if pa.types.is_decimal(kind):
        assert isinstance(value, Decimal)
        unscaled = int(value.scaleb(kind.scale, EXACT))
        if kind.precision <= 18:
            return unscaled.to_bytes(8, "little", signed=True)
        size = 1
        while not -(1 << (8 * size - 1)) <= unscaled < 1 << (8 * size - 1):
            size += 1
        return unscaled.to_bytes(size, "big", signed=True)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    return int(value).to_bytes(8, "little", signed=True)  # type: ignore[call-overload]


def shard_of(key: Sequence[object], kinds: Sequence[pa.DataType], shards: int) -> int:
    """pmod(xxhash64(key...), shards): the hash so far seeds the next column, nulls leave it alone."""
    result = 42
    for value, kind in zip(key, kinds, strict=True):
        if value is not None:
            result = xxh64(spark_bytes(value, kind), result)
    signed = result - (1 << 64) if result >> 63 else result
    return signed % shards


def random_table(kinds: dict[str, pa.Array], rows: int, rng: np.random.Generator) -> pa.Table:
    """`rows` rows whose columns draw from the given pools of values."""
    columns = {name: pool.take(pa.array(rng.integers(0, len(pool), rows))) for name, pool in kinds.items()}
    return pa.table(columns)
