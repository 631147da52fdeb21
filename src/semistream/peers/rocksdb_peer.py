"""RocksDB (rocksdict): encoded rows by key in sorted files, read by multi-get.

https://github.com/facebook/rocksdb/wiki/Setup-Options-and-Basic-Tuning, .../Creating-and-Ingesting-SST-files
"""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DataBlockIndexType,
    DBCompressionType,
    Options,
    Rdict,
    SstFileWriter,
)

from semistream.core.arrow import address_of
from semistream.core.rows import RowLayout
from semistream.peers.contract import Setting
from semistream.peers.lookup import I64, LookupPeer
from semistream.peers.page_cache import files_in
from semistream.workloads.tables import KEY, TABLE_SCHEMA

_LAYOUT = RowLayout(pa.schema(list(TABLE_SCHEMA)[1:]), 2)
_BATCHES_PER_FILE = 16
_BLOCK_BYTES = 4096
_BLOOM_BITS = 10


class MultiGet(LookupPeer):
    """The block cache gets the allowed memory, index and filters included. Values are rows as our own store encodes
    them, so that decoding costs what it costs us; random characters are not compressed."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, lanes=setting.threads)
        self.given_bytes = setting.memory_bytes

    def _options(self) -> Options:
        table = BlockBasedOptions()
        table.set_block_cache(Cache(self.setting.memory_bytes))
        table.set_block_size(_BLOCK_BYTES)
        table.set_bloom_filter(_BLOOM_BITS, False)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        table.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
        options = Options(raw_mode=True)
        options.set_block_based_table_factory(table)
        options.set_compression_type(DBCompressionType.none())
        options.increase_parallelism(self.setting.threads)
        return options

    @property
    def _database(self) -> Path:
        return self.setting.home / "database"

    def build(self) -> None:
        staging = self.setting.home / "staging"
        staging.mkdir()
        batches, written = self.rows(), list[str]()
        while group := list(islice(batches, _BATCHES_PER_FILE)):
            writer = SstFileWriter(self._options())
            written.append(str(staging / f"{len(written):06d}.sst"))
            writer.open(written[-1])
            for batch in group:
                for key, row in zip(_key_bytes(_keys(batch)), _encoded(batch), strict=True):
                    writer[key] = row
            writer.finish()
        database = Rdict(str(self._database), self._options())
        database.ingest_external_file(written)
        database.close()
        for path in written:
            Path(path).unlink(missing_ok=True)

    def open(self) -> None:
        self._rows = Rdict(str(self._database), self._options(), access_type=AccessType.read_only())

    def look_up(self, keys: I64, lane: int) -> pa.Table:
        values = self._rows[_key_bytes(keys)]
        there = [value for value in values if value is not None]
        if len(there) < len(values):
            keys = keys[np.array([value is not None for value in values], np.bool_)]
        lengths = np.fromiter(map(len, there), np.int64, len(there))
        content = np.frombuffer(b"".join(there) or b"\0", np.uint8)
        rows = address_of(content) + np.cumsum(lengths) - lengths
        return pa.table([pa.array(keys), *_LAYOUT.decode(rows)], schema=TABLE_SCHEMA)

    def files(self) -> list[Path]:
        return [path for path in files_in(self._database) if path.suffix == ".sst"]

    def close(self) -> None:
        super().close()
        self._rows.close()


def _keys(batch: pa.RecordBatch) -> I64:
    keys: I64 = batch.column(KEY).to_numpy()
    return keys


def _key_bytes(keys: I64) -> list[bytes]:
    """Big-endian, so that bytes have the order of the keys, which are not negative."""
    raw = keys.astype(">i8").tobytes()
    return [raw[at : at + 8] for at in range(0, len(raw), 8)]


def _encoded(batch: pa.RecordBatch) -> list[bytes]:
    columns = batch.columns[1:]
    sizes = _LAYOUT.sizes(columns, batch.num_rows)
    stops = np.cumsum(sizes)
    content = np.zeros(int(stops[-1]), np.uint8)
    _LAYOUT.encode(columns, address_of(content) + stops - sizes)
    raw, ends = content.tobytes(), [0, *stops.tolist()]
    return [raw[start:stop] for start, stop in pairwise(ends)]
