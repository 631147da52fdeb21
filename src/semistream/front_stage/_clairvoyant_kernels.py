"""Kernels of the clairvoyant front stage: the list that a record is in is its class of density."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from semistream.front_stage._table_kernels import ENTRIES, HEAD, LIVE, create, evict, fits

OCTAVES = 64  # of density, from 1 downwards
HEADER_BYTES = 8  # of an entry, beside its key and rows


@njit(cache=True)
def class_of(density, classes):  # type: ignore[no-untyped-def]
    """Rises with the density, with as many classes for each power of two; 0 is for what is never asked for."""
    if density <= 0.0:
        return 0
    per_octave = classes // OCTAVES
    mantissa, exponent = math.frexp(density)
    step = int((mantissa - 0.5) * 2 * per_octave)
    return min(max(1, classes + (exponent - 1) * per_octave + step), classes - 1)


@njit(cache=True, nogil=True)
def take(place, newcomers, hashes, probabilities, sizes, bytes_max):  # type: ignore[no-untyped-def]
    """Who is denser than the least dense ones comes in their place. Only keys and rows count."""
    classes = place.lists.shape[0]
    state = place.state
    least = 0
    for j in range(newcomers.size):
        size = sizes[j] - HEADER_BYTES
        mine = class_of(probabilities[j] / size, classes)
        while state[LIVE] - HEADER_BYTES * state[ENTRIES] + size > bytes_max or not fits(place, sizes[j]):
            while least < mine and place.lists[least, HEAD] == 0:
                least += 1
            if least >= mine:
                mine = 0
                break
            evict(place, newcomers, place.lists[least, HEAD])
        if mine:
            create(place, newcomers, j, hashes[j], sizes[j], mine, 0, True)
            least = min(least, mine)


@njit(cache=True)
def _sift_down(heap, size, at):  # type: ignore[no-untyped-def]
    """A heap of [next use, key] with the latest use on top."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and heap[child + 1, 0] > heap[child, 0]:
            child += 1
        if heap[child, 0] <= heap[at, 0]:
            return
        for c in range(2):
            heap[at, c], heap[child, c] = heap[child, c], heap[at, c]
        at = child


@njit(cache=True)
def _sift_up(heap, at):  # type: ignore[no-untyped-def]
    while at > 0 and heap[(at - 1) // 2, 0] < heap[at, 0]:
        parent = (at - 1) // 2
        for c in range(2):
            heap[at, c], heap[parent, c] = heap[parent, c], heap[at, c]
        at = parent


@njit(cache=True, nogil=True)
def belady(keys, next_use, keys_max):  # type: ignore[no-untyped-def]
    """Hits of the best cache of keys_max keys there is: who is asked for last leaves. keys are 0, 1, ...; next_use[i]
    is when keys[i] is asked for again (or keys.size)."""
    use_of = np.full(keys.max() + 1 if keys.size else 1, -1, np.int64)  # of each cached key; -1: not cached
    heap = np.empty((keys.size, 2), np.int64)  # uses that passed stay until they surface
    held = size = hits = np.int64(0)
    for i in range(keys.size):
        key = keys[i]
        if use_of[key] >= 0:
            hits += 1
        elif next_use[i] == keys.size:
            continue
        else:
            held += 1
        use_of[key] = next_use[i]
        heap[size, 0], heap[size, 1] = next_use[i], key
        size += 1
        _sift_up(heap, size - 1)
        while held > keys_max or (size > 0 and use_of[heap[0, 1]] != heap[0, 0]):
            if use_of[heap[0, 1]] == heap[0, 0]:
                use_of[heap[0, 1]] = -1
                held -= 1
            size -= 1
            heap[0, 0], heap[0, 1] = heap[size, 0], heap[size, 1]
            _sift_down(heap, size, 0)
    return hits
