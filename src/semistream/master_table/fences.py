"""Sparse fences: what stays in memory of a shard, to know which pages can hold a key.

The fence of a page is the shortest byte string that is above every key before the page and not above its
first key. A flag says that the page continues the key of the page before, so a key whose rows span pages
is found whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from semistream.core import _key_kernels as key_kernels
from semistream.core.arrow import address_of
from semistream.core.keys import KeyBatch, offsets_from
from semistream.master_table import _fence_kernels as kernels

I64 = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class Fences:
    """`words` are the fences of a fixed-width key; for other keys they are slices of `data`."""

    fixed: bool
    continues: Bytes
    words: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.uint32]
    data: Bytes

    @property
    def nbytes(self) -> int:
        body = self.words.nbytes if self.fixed else self.offsets.nbytes + self.data.nbytes
        return int(self.continues.nbytes + body)

    def locate(self, keys: KeyBatch) -> tuple[I64, I64]:
        """(first page, last page) that can hold each of the sorted keys; last < first: the key is absent."""
        first, last = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        if self.fixed:
            kernels.locate_words(self.words, self.continues, keys.prefix, first, last)
        else:
            kernels.locate_bytes(
                self.offsets,
                address_of(self.data),
                self.continues,
                keys.offsets,
                keys.data_address,
                len(keys),
                first,
                last,
            )
        return first, last

    def to_bytes(self) -> bytes:
        if self.fixed:
            return self.words.tobytes() + self.continues.tobytes()
        return self.offsets.tobytes() + self.data.tobytes() + self.continues.tobytes()

    @classmethod
    def from_bytes(cls, content: Bytes, *, pages: int, fixed: bool) -> Fences:
        """ValueError if the content cannot be the fences of that many pages."""
        continues = content[content.size - pages :]
        body = content[: content.size - pages]
        words, offsets, data = np.zeros(0, np.uint64), np.zeros(1, np.uint32), np.zeros(0, np.uint8)
        if fixed:
            words = body.view(np.uint64)
            if words.size != pages:
                raise ValueError(f"{words.size} fences for {pages} pages")
        else:
            offsets, data = body[: 4 * (pages + 1)].view(np.uint32), body[4 * (pages + 1) :]
            if offsets.size != pages + 1 or offsets[-1] != data.size or (offsets[1:] < offsets[:-1]).any():
                raise ValueError(f"fence offsets do not fit {pages} pages")
        return cls(fixed=fixed, continues=continues, words=words, offsets=offsets, data=data)


class FenceBuilder:
    """Collects the fences while pages are written: a few bytes per page, nothing per row."""

    def __init__(self, *, fixed: bool) -> None:
        self._fixed = fixed
        self._continues: list[Bytes] = []
        self._lengths: list[I64] = []
        self._parts: list[Bytes] = []

    def add(self, keys: KeyBatch, opens: I64, last: KeyBatch | None) -> None:
        """The rows `opens` of `keys` each open a page; `last` is the key written before this batch."""
        continues = np.zeros(opens.size, np.uint8)
        if self._fixed:
            first = keys.prefix[opens]
            before = keys.prefix[opens - 1]
            continues[:] = before == first
            if opens.size and opens[0] == 0:
                continues[0] = last is not None and last.prefix[0] == first[0]
            self._parts.append(first.view(np.uint8))
        else:
            lengths = np.zeros(opens.size, np.int64)
            address, size = (last.data_address, last.data.size) if last is not None else (0, -1)
            kernels.separators(opens, keys.offsets, keys.data_address, address, size, continues, lengths)
            offsets = offsets_from(lengths)
            data = np.empty(int(offsets[-1]), np.uint8)
            key_kernels.gather_slices(keys.offsets, keys.data_address, opens, offsets, address_of(data))
            self._lengths.append(lengths)
            self._parts.append(data)
        self._continues.append(continues)

    def build(self) -> Fences:
        data = np.concatenate([np.zeros(0, np.uint8), *self._parts])
        lengths = np.concatenate([np.zeros(0, np.int64), *self._lengths])
        return Fences(
            fixed=self._fixed,
            continues=np.concatenate([np.zeros(0, np.uint8), *self._continues]),
            words=data.view(np.uint64) if self._fixed else np.zeros(0, np.uint64),
            offsets=offsets_from(lengths).astype(np.uint32),
            data=np.zeros(0, np.uint8) if self._fixed else data,
        )
