"""Measure the join against Spark's own stream-static join, or against other systems; writes build/bench*.json."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from semistream.cli.output import console, names, progress_bar
from semistream.errors import ConfigError

RESULTS = Path("build/bench.json")
CORE_RESULTS = Path("build/bench-core.json")
PEERS_RESULTS = Path("build/bench-peers.json")
PEERS_FIGURES = Path("build/figures/peers")
_LARGE_ROWS = 100_000_000
_OF_PEERS = ("peer", "table_rows", "batch_rows", "memory_share", "fresh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--large", action="store_true", help="a table of 100 M rows instead of 10 M; takes long"
    )
    parser.add_argument(
        "--core", action="store_true", help=f"the core on one processor, without Spark; writes {CORE_RESULTS}"
    )
    parser.add_argument(
        "--part",
        action="append",
        metavar="PART",
        help="of --core alone: reads, speed, steps, grid, virtual (default: all)",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help=f"other ways to do the same, side by side; goes on where it was interrupted; writes {PEERS_RESULTS}",
    )
    of_peers = parser.add_argument_group("of --peers alone")
    add = of_peers.add_argument
    add("--peer", action="append", metavar="NAME", help="these contestants (default: all)")
    add("--table-rows", action="append", type=int, metavar="N", help="default: 1 M and 10 M")
    add("--batch-rows", action="append", type=int, metavar="N", help="default: 1 k, 10 k, 100 k and 1 M")
    add(
        "--memory-share",
        action="append",
        type=float,
        metavar="X",
        help="memory allowed, as a share of the table (default: 0.05)",
    )
    add("--fresh", action="store_true", help="measure all cells anew")


def run(arguments: argparse.Namespace) -> None:
    if arguments.core and arguments.peers:
        raise ConfigError("--core and --peers are two benchmarks.", hint="run one after the other.")
    if arguments.part and not arguments.core:
        raise ConfigError("--part is of the core's benchmark.", hint="add --core.")
    for name in _OF_PEERS:
        if getattr(arguments, name) and not arguments.peers:
            raise ConfigError(
                f"--{name.replace('_', '-')} is of the benchmark of the peers.", hint="add --peers."
            )
    if arguments.core:
        _run_core(arguments)
    elif arguments.peers:
        _run_peers(arguments)
    else:
        from semistream.spark.bench import run as run_benchmark

        run_benchmark(RESULTS, large=arguments.large)


def _run_core(arguments: argparse.Namespace) -> None:
    from semistream.cli.core_report import show
    from semistream.simulation.core_bench import CoreBenchConfig, bench, parts

    if arguments.large:
        raise ConfigError("--large is of the benchmark with Spark.", hint="leave out --large or --core.")
    out = console()
    config = CoreBenchConfig(parts=parts(names(arguments.part)))
    with out.status("") as status:
        result = bench(CORE_RESULTS, config, say=lambda text: status.update(text))
    show({name: found for name, found in result.items() if name in config.parts}, out)
    out.print(f"written to {CORE_RESULTS}")


def _run_peers(arguments: argparse.Namespace) -> None:
    from semistream.cli.peers_report import show, written
    from semistream.peers.bench import PeersConfig, run
    from semistream.peers.picture import draw

    given = {
        "peers": names(arguments.peer),
        "table_rows": arguments.table_rows or ([_LARGE_ROWS] if arguments.large else None),
        "batch_rows": arguments.batch_rows,
        "memory_shares": arguments.memory_share,
    }
    chosen: dict[str, Any] = {name: tuple(values) for name, values in given.items() if values}
    config = PeersConfig(**chosen)
    out = console()
    with progress_bar("cells", on=out) as bar:
        task = bar.add_task("peers", total=0, note="")

        def say(text: str, done: int, total: int, left_s: float | None) -> None:
            left = "" if left_s is None else f", about {left_s / 60:.0f} min left"
            bar.update(task, completed=done, total=total, note=text + left)
            if not out.is_terminal:
                out.print(
                    f"{time.strftime('%H:%M:%S')} {done} of {total} cells{left}: {text}", soft_wrap=True
                )

        cells = run(PEERS_RESULTS, config, say=say, fresh=arguments.fresh)
    show(cells, out)
    written([PEERS_RESULTS, *draw(cells, PEERS_FIGURES)], out)
