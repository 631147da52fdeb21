"""The kernel that shows pages of R to those who wait in a queue room."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._hash_kernels import hash_address, mix64
from semistream.core._key_kernels import compare_bytes, prefix_at
from semistream.core._memory import load_u16, load_u32, load_u64, swap_bytes
from semistream.master_table._page_kernels import HEADER_BYTES, SUM_BYTES
from semistream.waiting_room._queue_tables import find, tables_at


@njit(cache=True, nogil=True)
def match_pages(place, page_at, page_bytes, short, found, counts, row_at):  # type: ignore[no-untyped-def]
    """Shows all rows of some pages to those who wait. Each key found gets the next place in (found, counts), and its
    rows, which stand side by side, the next ones in row_at.

    Ends before a page that might not fit into row_at. Returns (pages done, keys found, rows found, rows seen, is the
    first row's key found, is the last row's).
    """
    fixed, _, _, _, words, _, spans, heap, slots, _ = tables_at(place)
    keys = rows_found = seen = np.int64(0)
    last_word = np.uint64(0)
    last_at = last_size = np.int64(-1)
    key = np.int64(-1)
    at_begin = False
    page_number = np.int64(0)
    while page_number < page_at.size:
        page = page_at[page_number]
        rows = np.int64(load_u32(page + 8))
        if rows_found + rows > row_at.size:
            break
        for row in range(rows):
            entry = page + HEADER_BYTES + row * short
            at = page + (np.int64(load_u16(entry)) if short == 2 else np.int64(load_u32(entry))) + SUM_BYTES
            if fixed:
                word = swap_bytes(load_u64(at))
                if last_at < 0 or word != last_word:
                    key, _ = find(
                        word, mix64(word), np.int64(0), np.int64(8), fixed, words, spans, heap, slots
                    )
                    if key >= 0:
                        found[keys] = key
                        counts[keys] = 0
                        keys += 1
                    last_word = word
                last_at = at
                values = at + 8
            else:
                size = np.int64(load_u16(at)) if short == 2 else np.int64(load_u32(at))
                at += short
                if last_at < 0 or compare_bytes(last_at, last_size, at, size) != 0:
                    key, _ = find(
                        prefix_at(at, size), hash_address(at, size, np.uint64(0)), at, size,
                        fixed, words, spans, heap, slots,
                    )  # fmt: skip
                    if key >= 0:
                        found[keys] = key
                        counts[keys] = 0
                        keys += 1
                last_at, last_size = at, size
                values = at + size
            if key >= 0:
                row_at[rows_found] = values
                rows_found += 1
                counts[keys - 1] += 1
            if seen == 0 and row == 0:
                at_begin = bool(key >= 0)
        seen += rows
        page_number += 1
    return page_number, keys, rows_found, seen, at_begin, key >= 0
