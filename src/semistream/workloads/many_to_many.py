"""Streams that ask for keys which the master table does not hold, by an exact share."""

from __future__ import annotations

from dataclasses import dataclass

from semistream.errors import ConfigError
from semistream.workloads.contracts import KeySource, random_generator
from semistream.workloads.synthetic import check_seed
from semistream.workloads.zipf import Int64s

# Keys of the table are the even numbers, those it lacks the odd ones: absent keys lie between present
# ones, so that no look at a key range can tell them apart.
KEY_STRIDE = 2
_TAG = 0xAB5E47


@dataclass(frozen=True, kw_only=True)
class AbsentKeys:
    """A `KeySource`: key k of `present` becomes 2k, and in a share of the rows 2k+1, which is absent.

    Exact: of the first n blocks' rows, `share` have an absent key, up to one row. Absent keys are as
    skewed as present ones.
    """

    present: KeySource
    share: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise ConfigError(
                f"the share of absent keys must lie between 0 and 1, got {self.share}",
                hint="0.1 lets a tenth of the stream rows ask for keys that the table lacks",
            )
        check_seed(self.seed)

    def keys(self, *, batch: int, rows: int) -> Int64s:
        keys = self.present.keys(batch=batch, rows=rows) * KEY_STRIDE
        absent = int((batch + 1) * rows * self.share) - int(batch * rows * self.share)
        places = random_generator(self.seed, _TAG, batch).permutation(rows)[:absent]
        keys[places] += 1
        return keys
