"""A sample gives back the law it was drawn from, from any kind of file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semistream.cost_model.frequencies import zipf_profile
from semistream.cost_model.sample import estimate, fit_exponent, read_counts
from semistream.errors import ConfigError
from semistream.workloads.zipf import ZipfConfig, ZipfKeys


def drawn(keys: int, exponent: float, rows: int) -> np.ndarray:
    found = ZipfKeys(ZipfConfig(keys=keys, exponent=exponent, seed=3)).keys(batch=0, rows=rows)
    return np.unique(found, return_counts=True)[1]


@pytest.mark.parametrize("exponent", [0.0, 0.4, 0.8, 1.0, 1.3])
@pytest.mark.parametrize(("keys", "rows"), [(10_000, 50_000), (1_000_000, 50_000)])
def test_the_exponent_is_found_whether_or_not_most_keys_were_seen(
    exponent: float, keys: int, rows: int
) -> None:
    # A stream that hardly repeats a key says little about a slight skew, and errs by a tenth or two.
    close = 0.03 if rows > keys else 0.2 if exponent < 0.5 else 0.05
    assert fit_exponent(drawn(keys, exponent, rows), keys=keys) == pytest.approx(exponent, abs=close)


def test_the_profile_is_counted_where_keys_are_hot_and_the_law_elsewhere() -> None:
    keys, rows = 100_000, 200_000
    counts = drawn(keys, 1.0, rows)
    sample = estimate(counts, keys=keys)
    law = zipf_profile(keys, 1.0)
    assert (sample.rows, sample.distinct_keys) == (rows, counts.size)
    assert sample.profile.keys == pytest.approx(keys)
    assert float(sample.profile.top(1)) == pytest.approx(counts.max() / rows)
    for top in (10, 1_000, 50_000):
        assert float(sample.profile.top(top)) == pytest.approx(float(law.top(top)), abs=0.02)


def test_a_stream_that_is_no_zipf_law_keeps_its_hot_keys() -> None:
    counts = np.array([5_000] * 10 + [1] * 50_000)
    sample = estimate(counts, keys=1_000_000)
    assert float(sample.profile.top(10)) == pytest.approx(0.5, rel=0.01)


def test_every_key_hot_and_more_keys_than_the_table_has() -> None:
    assert estimate(np.array([100, 300]), keys=2).profile.keys == 2
    assert estimate(np.ones(50, dtype=np.int64), keys=10).profile.keys == pytest.approx(50)


@pytest.mark.parametrize("kind", ["parquet", "directory", "text"])
def test_counts_of_a_file(kind: str, tmp_path: Path) -> None:
    keys = ["a", "b", "a", None, "a, with a comma", 'a "quote']
    path = tmp_path / "sample"
    if kind == "text":
        path.write_text("\n".join(key or "" for key in keys) + "\n")
    elif kind == "parquet":
        pq.write_table(pa.table({"key": keys}), path)
    else:
        path.mkdir()
        pq.write_table(pa.table({"key": keys[:3]}), path / "0.parquet")
        pq.write_table(pa.table({"key": keys[3:]}), path / "1.parquet")
    assert sorted(read_counts(path)) == [1, 1, 1, 2]


def test_the_column_must_be_known(tmp_path: Path) -> None:
    path = tmp_path / "sample.parquet"
    pq.write_table(pa.table({"user": [1, 1, 2], "price": [1.0, 2.0, 3.0]}), path)
    assert sorted(read_counts(path, key="user")) == [1, 2]
    for key, says in ((None, "several columns"), ("item", "no column 'item'")):
        with pytest.raises(ConfigError, match=says) as refused:
            read_counts(path, key=key)
        assert "user, price" in refused.value.hint


def test_what_is_no_sample_is_refused(tmp_path: Path) -> None:
    broken, empty, text = tmp_path / "broken", tmp_path / "empty", tmp_path / "text"
    broken.write_bytes(b"PAR1 and then nothing")
    pq.write_table(pa.table({"key": pa.array([None, None], pa.int64())}), empty)
    text.write_text("a\nb\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_counts(broken)
    with pytest.raises(ConfigError, match="holds no keys"):
        read_counts(empty)
    with pytest.raises(ConfigError, match="no column 'user'"):
        read_counts(text, key="user")
    with pytest.raises(ConfigError, match="no sample at"):
        read_counts(tmp_path / "missing")
