"""Kernels of fences: made where a page begins, and searched for the pages that can hold a key."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._key_kernels import compare_bytes
from semistream.core._memory import load_u8


@njit(cache=True)
def separator_bytes(a, a_size, b, b_size):  # type: ignore[no-untyped-def]
    """For keys a < b: the length of the shortest prefix of b above a."""
    i = np.int64(0)
    while i < a_size and i < b_size and load_u8(a + i) == load_u8(b + i):
        i += 1
    return min(i + 1, b_size)


@njit(cache=True, nogil=True)
def separators(first, offsets, data, last, last_size, continues, lengths):  # type: ignore[no-untyped-def]
    """For the rows `first` that open a page: does the page continue the key before, and how many bytes of
    its key tell it from the key before."""
    for j in range(first.size):
        i = first[j]
        at = data + offsets[i]
        size = offsets[i + 1] - offsets[i]
        if i == 0:
            before, before_size = last, last_size
        else:
            before, before_size = data + offsets[i - 1], offsets[i] - offsets[i - 1]
        if before_size >= 0 and compare_bytes(before, before_size, at, size) == 0:
            continues[j] = 1
            lengths[j] = size
        else:
            continues[j] = 0
            lengths[j] = separator_bytes(before, max(before_size, np.int64(0)), at, size)


@njit(cache=True, nogil=True)
def locate_words(fences, continues, keys, first_page, last_page):  # type: ignore[no-untyped-def]
    """The pages that can hold each of the sorted keys (fixed width). Below all fences: first > last."""
    low = np.int64(0)
    for k in range(keys.size):
        # Sorted keys move right only; the search starts where the last one ended.
        high = fences.size
        step = np.int64(1)
        while low + step < fences.size and fences[low + step] <= keys[k]:
            low += step
            step *= 2
        high = min(low + step, fences.size)
        left = low
        while left < high:
            middle = (left + high) // 2
            if fences[middle] <= keys[k]:
                left = middle + 1
            else:
                high = middle
        page = left - 1
        last_page[k] = page
        while page > 0 and continues[page] and fences[page] == keys[k]:
            page -= 1
        first_page[k] = max(page, np.int64(0))
        low = max(left - 1, np.int64(0))


@njit(cache=True, nogil=True)
def locate_bytes(  # type: ignore[no-untyped-def]
    fence_offsets, fence_data, continues, offsets, data, count, first_page, last_page
):
    """The same for keys of any length."""
    pages = continues.size
    low = np.int64(0)
    for k in range(count):
        at = data + offsets[k]
        size = offsets[k + 1] - offsets[k]
        left, high = low, pages
        while left < high:
            middle = (left + high) // 2
            start = fence_offsets[middle]
            if compare_bytes(fence_data + start, fence_offsets[middle + 1] - start, at, size) <= 0:
                left = middle + 1
            else:
                high = middle
        page = left - 1
        last_page[k] = page
        while page > 0 and continues[page]:
            start = fence_offsets[page]
            if compare_bytes(fence_data + start, fence_offsets[page + 1] - start, at, size) != 0:
                break
            page -= 1
        first_page[k] = max(page, np.int64(0))
        low = max(left - 1, np.int64(0))
