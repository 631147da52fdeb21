"""How frequent a key is that R was read for: what the threshold is compared with."""

from __future__ import annotations

from typing import Protocol

from semistream.core.contracts import I64
from semistream.core.keys import KeyBatch
from semistream.front_stage.key_counts import KeyCounts


class FrequencyDetector(Protocol):
    @property
    def size_bytes(self) -> int: ...

    def frequencies(self, keys: KeyBatch, sightings: I64) -> I64:
        """f of distinct keys for which sightings[j] stream rows waited when R was read."""


class RowsMatched:
    """f is the number of stream rows that wait for the key: the waiting room has counted already.

    For access paths where rows wait together (004 Algorithm 1 line 16, 000 Algorithm 1 line 16). Memory: none.
    """

    size_bytes = 0

    def frequencies(self, keys: KeyBatch, sightings: I64) -> I64:
        return sightings


class RecentKeys:
    """f is how often the key was seen of late: the temporary buffer of CINLJ (000 section 3.3).

    For access paths where nobody waits, so that every key comes alone. Keys are kept for the span in which
    `size_bytes` fill up, then the buffer is emptied. The smallest one that tells frequent keys from others is so long
    that a frequent key comes twice within it: then the threshold is 2.
    """

    def __init__(self, size_bytes: int) -> None:
        self._seen = KeyCounts(size_bytes, renew=True)
        self.size_bytes = self._seen.size_bytes

    @property
    def span_keys(self) -> int:
        """It is emptied after so many different keys."""
        return self._seen.keys_max

    def frequencies(self, keys: KeyBatch, sightings: I64) -> I64:
        return self._seen.add(keys, sightings)
