"""Kernels of the access paths: which pages to read, and who is served by which window of them."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def page_slots(first_page, last_page, first_slot, last_slot):  # type: ignore[no-untyped-def]
    """Numbers the distinct pages of the keys' ranges from 0 on, and turns each range into such numbers.

    The ranges rise, and a page may be in several. An absent key (last < first) gets an empty range. Returns
    the number of pages.
    """
    count = np.int64(0)
    reached = np.int64(-1)  # the last page that has a number: count - 1
    for k in range(first_page.size):
        if last_page[k] < first_page[k]:
            first_slot[k] = count
            last_slot[k] = count - 1
            continue
        first_slot[k] = count - 1 - (reached - first_page[k]) if reached >= first_page[k] else count
        last_slot[k] = first_slot[k] + last_page[k] - first_page[k]
        count = max(count, last_slot[k] + 1)
        reached = max(reached, last_page[k])
    return count


@njit(cache=True, nogil=True)
def next_pages(first_page, last_page, state, pages):  # type: ignore[no-untyped-def]
    """Fills `pages` with the next distinct pages of the ranges; state = (range, first page not given yet).
    Returns how many there were."""
    filled = np.int64(0)
    k, least = state[0], state[1]
    while k < first_page.size and filled < pages.size:
        page = max(first_page[k], least)
        while page <= last_page[k] and filled < pages.size:
            pages[filled] = page
            filled += 1
            page += 1
        least = max(least, page) if last_page[k] >= first_page[k] else least
        if page > last_page[k]:
            k += 1
    state[0], state[1] = k, least
    return filled


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


@njit(cache=True, nogil=True)
def stretches(first_page, last_page):  # type: ignore[no-untyped-def]
    """How many runs of neighbouring pages the rising ranges make up."""
    total = np.int64(0)
    reached = np.int64(-2)
    for k in range(first_page.size):
        if last_page[k] >= first_page[k]:
            if first_page[k] > reached + 1:
                total += 1
            reached = max(reached, last_page[k])
    return total
