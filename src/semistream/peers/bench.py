"""`make bench-peers`: every contestant in a process of its own, all over the same stream, taking turns.

A place is a table, the memory allowed, a batch size and a page cache that is warm or cold. At each, the contestants
run one after the other in rounds; the order rotates from round to round. What is shown is the median batch.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from semistream.errors import ConfigError
from semistream.peers.contract import Setting
from semistream.peers.memory import MemoryWatch
from semistream.peers.oracle import expected_rows
from semistream.peers.process import FailedError, PeerProcess
from semistream.peers.registry import PEERS
from semistream.peers.results import CACHES, Cache, Cell, Place, latencies, read, write
from semistream.peers.worker import COLD_SHARE_MAX, Timed, Turn
from semistream.spark.bench_report import short_count
from semistream.workloads.tables import TABLE_ROW_BYTES, StreamConfig, TableConfig, stream_batch, write_table
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

# What is done now; cells done, of how many; how long the rest may take, once that is known.
Say = Callable[[str, int, int, float | None], None]
_STREAM_NUMBERS = 10**6  # batches of one cell are never those of another


@dataclass(frozen=True, kw_only=True)
class PeersConfig:
    """What is measured, and for how long.

    Parameters
    ----------
    memory_shares: the memory allowed, in shares of the table's bytes.
    warm_up_per_cached_row, warm_up_rows_min, warm_up_per_table_row, warm_up_s_max: every contestant that keeps rows gets
        this much of the stream first, as far as it comes in that time; the least is for tables of a million rows or
        more, of smaller ones `warm_up_per_table_row`.
    cell_s: about how long a contestant is measured in a cell; its batches are as many as fit, from `batches_min` to
        `batches_max`.
    slow_batch_s: who needs longer for a batch is measured with one batch a cell.
    batch_s_max: who needs longer is stopped.
    """

    peers: tuple[str, ...] = tuple(PEERS)
    table_rows: tuple[int, ...] = (1_000_000, 10_000_000)
    batch_rows: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    caches: tuple[Cache, ...] = CACHES
    memory_shares: tuple[float, ...] = (0.05,)
    skew: float = 1.0
    threads: int = 2
    warm_up_per_cached_row: int = 100
    warm_up_rows_min: int = 20_000_000
    warm_up_per_table_row: int = 20
    warm_up_batch_rows: int = 1_000_000
    warm_up_s_max: float = 30.0
    verified_rows: int = 10_000
    cell_s: float = 3.0
    rounds: int = 3
    batches_min: int = 3
    batches_max: int = 200
    slow_batch_s: float = 6.0
    batch_s_max: float = 90.0
    build_s_max: float = 1800.0
    open_s_max: float = 240.0
    seed: int = 0

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.peers) - set(PEERS)):
            raise ConfigError(
                f"there is no contestant {', '.join(unknown)}.", hint=f"choose from: {', '.join(PEERS)}."
            )
        if min(*self.table_rows, *self.batch_rows) < self.threads or min(self.memory_shares) <= 0:
            raise ConfigError(
                f"a benchmark needs rows and memory, got tables of {self.table_rows}, batches of {self.batch_rows}, "
                f"memory shares {self.memory_shares}.",
                hint="pass a row for each thread at least, and a share above 0.",
            )

    def warm_up_rows(self, table_rows: int, memory_bytes: int) -> int:
        least = min(self.warm_up_rows_min, self.warm_up_per_table_row * table_rows)
        return max(least, self.warm_up_per_cached_row * (memory_bytes // TABLE_ROW_BYTES))


def run(out: Path, config: PeersConfig, *, say: Say, fresh: bool = False) -> list[Cell]:
    """Measures the cells that `out` does not hold yet (all of them if `fresh`), and writes them there, place by place.
    Cells in which a contestant could not run are tried again. Tables and built files are kept in `bench-data` beside it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    cells = {(cell.peer, cell.place): cell for cell in ([] if fresh else read(out))}
    places = [
        Place(
            table_rows=rows,
            memory_bytes_allowed=int(rows * TABLE_ROW_BYTES * share),
            batch_rows=batch_rows,
            cache=cache,
        )
        for rows in config.table_rows
        for share in config.memory_shares
        for batch_rows in config.batch_rows
        for cache in config.caches
    ]
    progress = _Progress(say, [(peer, place) for place in places for peer in config.peers], cells)
    settings = dict.fromkeys((place.table_rows, place.memory_bytes_allowed) for place in places)
    for table_rows, memory_bytes in settings:
        here = [p for p in places if (p.table_rows, p.memory_bytes_allowed) == (table_rows, memory_bytes)]
        missing = [peer for peer in config.peers if any(progress.lacks(peer, place) for place in here)]
        if not missing:
            continue
        data = out.parent / "bench-data"
        with _Field.opened(table_rows, memory_bytes, missing, config, data, progress) as field_:
            for place in here:
                absent = [peer for peer in missing if progress.lacks(peer, place)]
                started = time.monotonic()
                for cell in field_.measured(place, absent) if absent else []:
                    cells[cell.peer, place] = cell
                write(out, cells.values())
                progress.add(len(absent), time.monotonic() - started)
                progress.show(f"{place}: done")
    return list(cells.values())


@dataclass
class _Progress:
    say: Say
    wanted: list[tuple[str, Place]]
    cells: dict[tuple[str, Place], Cell]
    measured: int = 0
    measured_s: float = 0.0

    def add(self, cells: int, seconds: float) -> None:
        self.measured, self.measured_s = self.measured + cells, self.measured_s + seconds

    def lacks(self, peer: str, place: Place) -> bool:
        cell = self.cells.get((peer, place))
        return cell is None or cell.failed is not None

    def show(self, text: str) -> None:
        done = sum(each in self.cells for each in self.wanted)
        left_s = None
        if self.measured:
            left_s = (len(self.wanted) - done) * self.measured_s / self.measured
        self.say(text, done, len(self.wanted), left_s)


@dataclass
class _Contestant:
    """`failed` says why it is out."""

    name: str
    process: PeerProcess | None = None
    failed: str | None = None
    warm_up_rows: int = 0


@dataclass
class _Entered:
    """A contestant in one cell: what it has been measured to so far."""

    contestant: _Contestant
    batches: int = 0
    first: int = 0
    seconds: list[float] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    peak_bytes: int = 0
    mapped_bytes: int = 0
    failed: str | None = None


class _Field:
    """All contestants of one table and memory, started and warm."""

    def __init__(
        self, table_rows: int, memory_bytes: int, config: PeersConfig, data: Path, progress: _Progress
    ) -> None:
        self._table_rows, self._memory_bytes, self._config = table_rows, memory_bytes, config
        self._home = data / short_count(table_rows).replace(" ", "")
        self._progress = progress
        self._zipf = ZipfConfig(keys=table_rows, exponent=config.skew, seed=config.seed)
        self._contestants: dict[str, _Contestant] = {}

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls,
        table_rows: int,
        memory_bytes: int,
        peers: Sequence[str],
        config: PeersConfig,
        data: Path,
        progress: _Progress,
    ) -> Iterator[_Field]:
        field_ = cls(table_rows, memory_bytes, config, data, progress)
        try:
            field_._prepare(peers)
            yield field_
        finally:
            field_._close()

    def _prepare(self, peers: Sequence[str]) -> None:
        self._say("the table")
        files = write_table(TableConfig(rows=self._table_rows), self._home / "table")
        table_id = (self._home / "table" / "_config.json").read_text()
        batch, expected = self._verification(files)
        for name in peers:
            setting = Setting(
                table_files=tuple(path.absolute() for path in files),
                table_id=table_id,
                rows=self._table_rows,
                home=(self._home / "peers" / name).absolute(),
                memory_bytes=self._memory_bytes,
                threads=self._config.threads,
            )
            self._contestants[name] = _Contestant(name)
            with self._failures_of(self._contestants[name]):
                self._enter(self._contestants[name], setting, batch, expected)

    def _enter(
        self, contestant: _Contestant, setting: Setting, batch: pa.RecordBatch, expected: pa.Table
    ) -> None:
        """Builds in a process of its own: what that took is not memory of the join."""
        config, title = self._config, PEERS[contestant.name].title
        self._say(f"{title}: building its files, or reusing them")
        with contextlib.closing(PeerProcess(contestant.name, setting, self._zipf)) as builder:
            builder.ask("build", limit_s=config.build_s_max)
        self._say(f"{title}: opening, verifying {batch.num_rows:,} rows")
        contestant.process = PeerProcess(contestant.name, setting, self._zipf)
        contestant.process.ask("open", batch, expected, limit_s=config.open_s_max)
        self._say(f"{title}: warming up")
        rows = config.warm_up_rows(self._table_rows, self._memory_bytes)
        contestant.warm_up_rows = contestant.process.ask(
            "warm_up", min(config.warm_up_batch_rows, rows), rows, config.warm_up_s_max,
            limit_s=config.warm_up_s_max + config.batch_s_max,
        )  # fmt: skip

    def _verification(self, files: list[Path]) -> tuple[pa.RecordBatch, pa.Table]:
        config = StreamConfig(keys=self._zipf, batch_rows=self._config.verified_rows, batches=1)
        batch = stream_batch(config, ZipfKeys(self._zipf), _STREAM_NUMBERS - 1)
        return batch, expected_rows(batch, files)

    def measured(self, place: Place, names: Sequence[str]) -> list[Cell]:
        """One cell for each: a first batch that tells how many there can be, then the rounds."""
        entered = [_Entered(self._contestants[name]) for name in names]
        for each in entered:
            each.failed = each.contestant.failed
            each.first = (2 * place.batch_rows + (place.cache == "cold")) * _STREAM_NUMBERS
            self._say(f"{place}: {PEERS[each.contestant.name].title}, a first batch")
            first = self._turn(each, place, 1)
            if first is not None:
                each.batches = batches_of(first, self._config)
        for number in range(self._config.rounds):
            turn = number % len(entered)
            for each in entered[turn:] + entered[:turn]:
                share = [len(part) for part in np.array_split(np.arange(each.batches), self._config.rounds)]
                if share[number] and each.failed is None:
                    title = PEERS[each.contestant.name].title
                    self._say(f"{place}: round {number + 1} of {self._config.rounds}, {title}")
                    timed = self._turn(each, place, share[number])
                    if timed is not None:
                        each.seconds += timed.seconds
                        each.timed.append(timed)
        return [self._cell(place, each) for each in entered]

    def _turn(self, each: _Entered, place: Place, batches: int) -> Timed | None:
        """None if the contestant is out, or is now."""
        process = each.contestant.process
        if each.failed is not None or process is None:
            return None
        turn = Turn(
            batch_rows=place.batch_rows, first=each.first, batches=batches, is_cold=place.cache == "cold"
        )
        each.first += batches + 1
        with self._failures_of(each.contestant), MemoryWatch(process.pid) as watch:
            timed: Timed = process.ask("run", turn, limit_s=self._config.batch_s_max * (batches + 1))
        each.peak_bytes = max(each.peak_bytes, watch.peak_bytes)
        each.mapped_bytes = max(each.mapped_bytes, watch.mapped_bytes)
        each.failed = each.contestant.failed
        return None if each.failed else timed

    def _cell(self, place: Place, each: _Entered) -> Cell:
        table_bytes = place.table_rows * TABLE_ROW_BYTES
        common = Cell(
            peer=each.contestant.name,
            family=PEERS[each.contestant.name].family,
            table_rows=place.table_rows,
            batch_rows=place.batch_rows,
            cache=place.cache,
            memory_bytes_allowed=place.memory_bytes_allowed,
            table_bytes=table_bytes,
            fits_in_memory=table_bytes <= place.memory_bytes_allowed,
            threads=self._config.threads,
            failed=each.failed,
        )
        if each.failed is not None or not each.timed:
            return common
        shares = [timed.resident_share for timed in each.timed if timed.resident_share is not None]
        share = (max if place.cache == "cold" else min)(shares, default=None)
        notes = list(each.timed[-1].notes)
        if each.batches < self._config.batches_min:
            notes.append(f"a batch takes so long that {each.batches} was measured")
        if place.cache == "cold" and share is not None and share > COLD_SHARE_MAX:
            notes.append(f"{share:.0%} of its files stayed in the page cache")
        return replace(
            common,
            **latencies(place.batch_rows, each.seconds),
            memory_bytes_given=each.timed[-1].given_bytes,
            peak_rss_bytes=each.peak_bytes,
            mapped_bytes=each.mapped_bytes,
            resident_share=share,
            warm_up_rows=each.contestant.warm_up_rows,
            load=round(os.getloadavg()[0], 2),
            notes=tuple(notes),
        )

    @contextlib.contextmanager
    def _failures_of(self, contestant: _Contestant) -> Iterator[None]:
        """Whoever fails is out for this table, and the others go on."""
        try:
            yield
        except FailedError as error:
            contestant.failed = str(error)
            if contestant.process is not None:
                contestant.process.close()
                contestant.process = None

    def _say(self, text: str) -> None:
        self._progress.show(text)

    def _close(self) -> None:
        for contestant in self._contestants.values():
            if contestant.process is not None:
                contestant.process.close()


def batches_of(first: Timed, config: PeersConfig) -> int:
    """How many batches a contestant is measured with, by its first: what fits `cell_s`, or twice that with all that is
    not measured."""
    seconds = first.seconds[0]
    if seconds > config.slow_batch_s:
        return 1
    fitting = min(config.cell_s / seconds, 2 * config.cell_s / first.wall_s)
    return int(min(max(fitting, config.batches_min), config.batches_max))
