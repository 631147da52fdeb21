"""Kernels of the access paths: which pages to read, and who is served by which window of them."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def distinct_pages(first_page, last_page, pages, first_slot, last_slot):  # type: ignore[no-untyped-def]
    """The union of the keys' page ranges in order, and each range as slots of that union.

    An absent key (last < first) gets an empty range of slots. Returns the number of pages.
    """
    count = np.int64(0)
    for k in range(first_page.size):
        if last_page[k] < first_page[k]:
            first_slot[k] = count
            last_slot[k] = count - 1
            continue
        page = first_page[k]
        if count and pages[count - 1] >= page:
            first_slot[k] = count - 1 - (pages[count - 1] - page)
            page = pages[count - 1] + 1
        else:
            first_slot[k] = count
        while page <= last_page[k]:
            pages[count] = page
            count += 1
            page += 1
        last_slot[k] = first_slot[k] + last_page[k] - first_page[k]
    return count


@njit(cache=True, nogil=True)
def range_total(first_page, last_page):  # type: ignore[no-untyped-def]
    """An upper bound of the distinct pages."""
    total = np.int64(0)
    reached = np.int64(-1)
    for k in range(first_page.size):
        low = max(first_page[k], reached + 1)
        if last_page[k] >= low:
            total += last_page[k] - low + 1
            reached = last_page[k]
    return total
