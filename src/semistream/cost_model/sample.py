"""What a sample of the stream's keys says about their frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from semistream.cost_model.frequencies import KeyProfile, profile_of_counts, zipf_profile
from semistream.cost_model.search import maximise
from semistream.errors import ConfigError

# A key seen this often is counted to within a fifth; of rarer ones only how many there are is believed.
_COUNT_BELIEVED = 32
_EXPONENT_MAX = 3.0
_PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """A sample's size, the Zipf exponent that explains it best, and the profile to plan with."""

    rows: int
    distinct_keys: int
    exponent: float
    profile: KeyProfile


def read_counts(path: Path, *, key: str | None = None) -> npt.NDArray[np.int64]:
    """How often each key occurs in a Parquet file or directory, or in a text file with a key on each line.

    `key` names the column; a file with a single one needs no name. Null keys never match and are left out.
    """
    if not path.exists():
        raise ConfigError(
            f"no sample at {path}.", hint="pass a Parquet file, or text with a key on each line."
        )
    column = _parquet_column(path, key) if path.is_dir() or _is_parquet(path) else _text_column(path, key)
    counted = pc.value_counts(pc.drop_null(column))
    counts = counted.field("counts").to_numpy(zero_copy_only=False).astype(np.int64)
    if counts.size == 0:
        raise ConfigError(
            f"the sample {path} holds no keys.", hint="pass at least a few thousand stream rows."
        )
    return counts


def estimate(counts: npt.NDArray[np.int64], *, keys: int) -> Sample:
    """The profile over `keys` keys: the counted shares of the hot ones, and Zipf's law for all others.

    Where the sample has more distinct keys than the table, there are as many as it has.
    """
    keys = max(keys, counts.size)
    exponent = fit_exponent(counts, keys=keys)
    rows = int(counts.sum())
    hot = np.sort(counts[counts >= _COUNT_BELIEVED])[::-1]
    law = zipf_profile(keys, exponent)
    if hot.size == 0:
        profile = law
    elif hot.size == keys:
        profile = profile_of_counts(counts)
    else:
        cold = law.without_top(float(hot.size))
        # The keys taken out came last in it, with probability 0; the counted ones stand in their place.
        cold_mass = max(0.0, 1.0 - float(hot.sum()) / rows)
        profile = KeyProfile.of(
            np.concatenate((np.ones(hot.size), cold.counts[:-1])),
            np.concatenate((hot / rows, np.minimum(cold.probability[:-1] * cold_mass, hot[-1] / rows))),
        )
    return Sample(rows=rows, distinct_keys=counts.size, exponent=exponent, profile=profile)


def fit_exponent(counts: npt.NDArray[np.int64], *, keys: int) -> float:
    """The most likely Zipf exponent of a sample, given how many keys there are.

    Which rank a key has is not known, and guessing it from the sample's own order makes any stream look
    skewed. So the likelihood is that of the counts without their keys: a key of probability p is seen
    c times with Poisson(n p), its rank is any, so c has the mixture of these over all ranks. Keys never seen
    count too; counts from 32 on are one class, as their likelihood is rugged and adds little.
    """
    rows = float(counts.sum())
    seen = np.bincount(np.minimum(counts, _COUNT_BELIEVED), minlength=_COUNT_BELIEVED + 1).astype(np.float64)
    seen[0] = keys - counts.size
    log_factorial = np.cumsum(np.log(np.maximum(np.arange(_COUNT_BELIEVED), 1)))
    classes = np.arange(_COUNT_BELIEVED)

    def log_likelihood(exponent: float) -> float:
        law = zipf_profile(keys, exponent)
        mean = np.maximum(rows * law.probability, 1e-300)[:, None]
        share = (law.counts / law.keys) @ np.exp(classes * np.log(mean) - mean - log_factorial)
        shares = np.append(share, max(1.0 - float(share.sum()), 0.0))
        return float(seen @ np.log(np.maximum(shares, 1e-300)))

    lowest = 1e-3
    best = maximise(log_likelihood, lowest, _EXPONENT_MAX, points=24, refinements=14)
    return 0.0 if log_likelihood(0.0) >= log_likelihood(best) else round(best, 4)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == _PARQUET_MAGIC


def _parquet_column(path: Path, key: str | None) -> pa.ChunkedArray:
    try:
        names = pq.ParquetDataset(path).schema.names
        return pq.read_table(path, columns=[_one_of(names, key, path)]).column(0)
    except (pa.ArrowInvalid, OSError) as error:
        raise ConfigError(
            f"the sample {path} cannot be read: {str(error).splitlines()[0]}",
            hint="pass a Parquet file, or text with a key on each line.",
        ) from None


def _text_column(path: Path, key: str | None) -> pa.ChunkedArray:
    if key is not None:
        raise ConfigError(
            f"the sample {path} is text with a key on each line, so it has no column '{key}'.",
            hint="leave --key out, or pass a Parquet file.",
        )
    try:
        # A separator that no key holds: the whole line is the key.
        table = pyarrow.csv.read_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(column_names=["key"]),
            parse_options=pyarrow.csv.ParseOptions(delimiter="\x1f", quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={"key": pa.string()}, strings_can_be_null=True, null_values=[""]
            ),
        )
    except pa.ArrowInvalid as error:
        raise ConfigError(
            f"the sample {path} cannot be read: {str(error).splitlines()[0]}",
            hint="pass a Parquet file, or text with a key on each line.",
        ) from None
    return table.column(0)


def _one_of(names: list[str], key: str | None, path: Path) -> str:
    if key is None and len(names) == 1:
        return names[0]
    if key is None or key not in names:
        asked = "it has several columns" if key is None else f"it has no column '{key}'"
        raise ConfigError(
            f"which column of the sample {path} is the key? {asked}.",
            hint=f"pass --key with one of: {', '.join(names)}.",
        )
    return key
