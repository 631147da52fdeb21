"""Kernels of the virtual table: pages and columns made from row numbers, and keys found by arithmetic.

Row n has the key `n // rows_per_key * key_stride`, and a payload that is a function of (seed, n mod rows_per_page)
alone. A table is made of stretches of rows: one, and another one wherever rows were appended behind a page that was not
full. A stretch begins with a page and a key of its own; each page of it but the last holds `rows_per_page` rows.

So all full pages of a stretch are alike but for their keys and row numbers, and a page is made where another one was by
writing these: a tenth of the work.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._hash_kernels import P1, mix64
from semistream.core._key_kernels import SIGN
from semistream.core._memory import store_u8, store_u16, store_u32, store_u64, swap_bytes
from semistream.master_table._page_kernels import _COUNT_AT, _NUMBER_AT, HEADER_BYTES, SUM_BYTES, seal_pages

NARROW_BYTES_MAX = 255

# What a table is like: the places of an array.
PAGE_BYTES, SHORT, ROWS_PER_PAGE, ROWS_PER_KEY, KEY_STRIDE, ROW_BYTES, PAYLOAD_BYTES = range(7)

NOT_DRAWN = -1
NONE = np.int64(1 << 62)  # no page, not even a wrong one, has this number

# Eight characters from " " to "_" at a time: six random bits each, moved up to where text begins.
_SIX_BITS = np.uint64(0x3F3F3F3F3F3F3F3F)
_SPACES = np.uint64(0x2020202020202020)


@njit(cache=True, inline="always")
def _letters(word):  # type: ignore[no-untyped-def]
    return ((word ^ (word >> np.uint64(32))) & _SIX_BITS) + _SPACES


@njit(cache=True, inline="always")
def _put_payload(row, row_seed, size, target):  # type: ignore[no-untyped-def]
    """Word j is one addition away from the first, so that the processor makes several at once."""
    base = mix64(row_seed ^ np.uint64(row))
    words = size >> 3
    for j in range(words):
        store_u64(target + 8 * j, _letters(base + np.uint64(j) * P1))
    rest = _letters(base + np.uint64(words) * P1)
    for at in range(target + 8 * words, target + size):
        store_u8(at, np.uint8(rest & np.uint64(0xFF)))
        rest >>= np.uint64(8)


@njit(cache=True, nogil=True)
def put_payloads(rows, rows_per_page, seed, size, target):  # type: ignore[no-untyped-def]
    """The payloads of these rows, one after the other."""
    row_seed = mix64(seed + P1)
    for i in range(rows.size):
        _put_payload(rows[i] % rows_per_page, row_seed, size, target + i * size)


@njit(cache=True, inline="always")
def _store_short(at, value, width):  # type: ignore[no-untyped-def]
    if width == 2:
        store_u16(at, np.uint16(value))
    else:
        store_u32(at, np.uint32(value))


@njit(cache=True, inline="always")
def _stretch_of(starts, at):  # type: ignore[no-untyped-def]
    """The last stretch that starts at `at` or before."""
    low, high = np.int64(0), starts.size
    while high - low > 1:
        middle = (low + high) // 2
        if starts[middle] <= at:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True)
def _draw_page(page, row, count, shape, row_seed):  # type: ignore[no-untyped-def]
    """All of a page that begins with `row` but its number, keys, row numbers and sums."""
    page_bytes, short, row_bytes = shape[PAGE_BYTES], shape[SHORT], shape[ROW_BYTES]
    payload_bytes, rows_per_page = shape[PAYLOAD_BYTES], shape[ROWS_PER_PAGE]
    is_wide = payload_bytes > NARROW_BYTES_MAX
    store_u64(page, np.uint64(0))
    store_u32(page + _COUNT_AT, np.uint32(count))
    for at in range(page + HEADER_BYTES + count * short, page + page_bytes - count * row_bytes):
        store_u8(at, np.uint8(0))
    offset = page_bytes
    for j in range(count):
        offset -= row_bytes
        _store_short(page + HEADER_BYTES + j * short, offset, short)
        store_u32(page + offset, np.uint32(0))
        at = page + offset + SUM_BYTES
        store_u8(at + 8, np.uint8(is_wide))
        phase = (row + j) % rows_per_page
        if is_wide:
            _store_short(at + 17, payload_bytes, short)
            _put_payload(phase, row_seed, payload_bytes, at + 17 + short)
        else:
            store_u8(at + 17, np.uint8(payload_bytes))
            _put_payload(phase, row_seed, payload_bytes, at + 18)


@njit(cache=True, nogil=True)
def make_pages(  # type: ignore[no-untyped-def]
    page_at, drawn, pages, shape, rows, first_row, first_page, page_count, seed, is_sealed
):
    """Writes page pages[i] of a table of `rows` rows to page_at[i], as a shard writer would; without checksums
    unless `is_sealed`. Returns the first of the pages that is not there, or NONE.

    drawn[i] says which rows' payloads stand there already: those of any full page whose first row has this phase.
    """
    for i in range(pages.size):
        if not 0 <= pages[i] < page_count:
            return pages[i]
    page_bytes, rows_per_page, row_bytes = shape[PAGE_BYTES], shape[ROWS_PER_PAGE], shape[ROW_BYTES]
    rows_per_key, key_stride = shape[ROWS_PER_KEY], shape[KEY_STRIDE]
    row_seed = mix64(seed + P1)
    for i in range(pages.size):
        page = page_at[i]
        stretch = _stretch_of(first_page, pages[i])
        row = first_row[stretch] + (pages[i] - first_page[stretch]) * rows_per_page
        end = first_row[stretch + 1] if stretch + 1 < first_row.size else np.int64(rows)
        count = min(rows_per_page, end - row)
        phase = first_row[stretch] % rows_per_page
        if count < rows_per_page or drawn[i] != phase:
            _draw_page(page, row, count, shape, row_seed)
            drawn[i] = phase if count == rows_per_page else NOT_DRAWN
        store_u32(page + _NUMBER_AT, np.uint32(pages[i]))
        key, same = row // rows_per_key * key_stride, row % rows_per_key
        at = page + page_bytes - row_bytes + SUM_BYTES
        for j in range(count):
            store_u64(at, swap_bytes(np.uint64(key) ^ SIGN))
            store_u64(at + 9, np.uint64(row + j))
            at -= row_bytes
            same += 1
            if same == rows_per_key:
                key, same = key + key_stride, np.int64(0)
        if is_sealed:  # while the page is in the nearest cache
            seal_pages(page, page_bytes, 1, pages[i], shape[SHORT], seed)
    return NONE


@njit(cache=True, nogil=True)
def locate(keys, shape, rows, first_row, first_page, first, last):  # type: ignore[no-untyped-def]
    """What the fences of these pages would say of each key, without them."""
    rows_per_page, rows_per_key, key_stride = shape[ROWS_PER_PAGE], shape[ROWS_PER_KEY], shape[KEY_STRIDE]
    last_ordinal = rows // rows_per_key - 1
    for k in range(keys.size):
        key = np.int64(keys[k] ^ SIGN)
        if key < 0 or last_ordinal < 0:
            first[k], last[k] = 0, -1
            continue
        # The last page that does not begin above the key is the last with rows of it, or of the key below it.
        ordinal = min(key // key_stride, last_ordinal)
        stretch = _stretch_of(first_row, ordinal * rows_per_key)
        row, page = ordinal * rows_per_key - first_row[stretch], first_page[stretch]
        last[k] = page + (row + rows_per_key - 1) // rows_per_page
        is_held = ordinal * key_stride == key
        first[k] = page + row // rows_per_page if is_held else last[k]
