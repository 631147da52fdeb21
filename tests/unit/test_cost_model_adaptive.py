"""The rivals, and ours: splits against grids, and the lead over all others."""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

import numpy as np
import pytest
from tests.cost_settings import MIB, ROWS, setting

from semistream.cost_model import adaptive, partitioned, ssij
from semistream.cost_model.models import MODELS
from semistream.cost_model.pages import page_profile
from semistream.cost_model.profiles import HDD2012, NVME, DeviceProfile
from semistream.cost_model.work import Counts


def test_the_rivals_settings_beat_a_grid() -> None:
    where, M = setting(0.9), 0.05 * ROWS * 120
    best = ssij.predict(where, M).rows_per_s
    for count in np.geomspace(1, 0.9 * M / 8192, 40):
        assert ssij.predict(where, M, cached_pages=count).rows_per_s <= best * 1.005
    best = partitioned.predict(where, M).rows_per_s
    for V in np.geomspace(8192, M / 2, 15):
        for count in np.linspace(0, 0.5 * M / 8192, 12):
            assert partitioned.predict(where, M, V=V, cached_pages=count).rows_per_s <= best * 1.01


@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize(("P", "H"), [(1, 50), (2, 40), (60, 20), (60, 45), (60, 90), (60, 600)])
def test_a_read_of_the_fullest_slot_serves_what_the_model_says(exponent: float, P: int, H: int) -> None:
    """Played through: the room is full, the fullest slot is read, new rows take the places. The ten hottest of all keys
    are cached."""
    random = np.random.default_rng(9)
    q = random.permutation(np.arange(11, 30 * P + 11) ** -exponent).reshape(P, 30).sum(axis=1)
    q /= q.sum()
    slots = random.multinomial(H, q)
    served = []
    for _ in range(60 * P + 20 * H):
        slot = int(slots.argmax())
        served.append(int(slots[slot]))
        slots[slot] = 0
        slots += random.multinomial(served[-1], q)
    steady = served[len(served) // 3 :]
    assert partitioned.rows_per_read(H, P) == pytest.approx(np.mean(steady), rel=0.05)


def test_the_best_split_of_adaptive_beats_a_grid() -> None:
    for device in (HDD2012, NVME):
        where = setting(device=device)
        M = 0.05 * where.R_bytes
        best = adaptive.predict(where, M).rows_per_s
        for share in np.linspace(0.0, 0.93, 40):
            h = share * M / where.cached_key_bytes
            assert adaptive.predict(where, M, h=h).rows_per_s <= best * 1.005


def test_adaptive_scans_where_positioning_is_dear_and_looks_up_where_it_is_not() -> None:
    M = 0.01 * ROWS * 120
    assert adaptive.predict(setting(0.0), M).access == "scan"
    assert adaptive.predict(setting(0.0, device=NVME), M, batch_rows=5_000).access == "lookup"
    where = setting(0.0)
    scan, lookup = adaptive.scan_work(where), adaptive.lookup_work(page_profile(where), 100.0)
    assert scan.bytes_read == where.R_bytes
    assert lookup.bytes_read == pytest.approx(100 * 8192, rel=0.01)
    assert lookup.random_reads == 0
    assert lookup.random_reads_overlapped == pytest.approx(100, rel=0.01)


def test_adaptive_with_all_of_r_in_memory_is_a_hash_join() -> None:
    where = setting(rows=100_000)
    found = adaptive.predict(where, 4 * where.R_bytes)
    hits = 1 / HDD2012.seconds(Counts(probes=1, rows_in=1, rows_out=1))
    assert found.hit_ratio == pytest.approx(1.0, abs=1e-6)
    assert found.rows_per_s == pytest.approx(hits, rel=0.01)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.2])
@pytest.mark.parametrize("m", [1.0, 4.0])
@pytest.mark.parametrize("device", [HDD2012, NVME], ids=lambda device: device.name)
def test_adaptive_leads_everywhere(exponent: float, m: float, device: DeviceProfile) -> None:
    where = setting(exponent, m=m, device=device)
    for share in (0.01, 0.1):
        M = share * where.R_bytes
        ours = max(adaptive.predict(where.with_pages(size), M).rows_per_s for size in (8192, MIB // 4))
        others = {
            name: model.predict(where, M).rows_per_s for name, model in MODELS.items() if name != "adaptive"
        }
        assert ours >= 0.97 * max(others.values()), (share, others)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize("parts", [100, 10])
def test_a_room_that_is_swept_serves_nearly_twice_its_rows_a_sweep(exponent: float, parts: int) -> None:
    """Played through: parts one after the other, each takes its rows, and new rows take their places."""
    pages, H, sweeps = 100, 2000, 12
    random = np.random.default_rng(8)
    q = (
        random.permutation((np.arange(1, pages * 20 + 1) ** -exponent).astype(float))
        .reshape(pages, 20)
        .sum(axis=1)
    )
    q /= q.sum()
    waiting = random.multinomial(H, q)
    served = []
    for _ in range(sweeps):
        rows = 0
        for part in np.split(np.arange(pages), parts):
            free, waiting[part] = waiting[part].sum(), 0
            waiting += random.multinomial(free, q)
            rows += free
        served.append(rows)
    assert np.mean(served[4:]) == pytest.approx(adaptive.swept_rows(H, parts), rel=0.05)
