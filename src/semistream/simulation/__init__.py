"""Joins driven without Spark, over any table and stream, on the wall's clock or on a virtual one.

- `run.run`: one join, warmed up and then measured in intervals; `config` says how, `intervals` what came out.
- `feed`: a stream that never runs dry, or one that keeps its own schedule.
- `predicted`: what the cost model says of the same run, beside what was measured.
- `points`: a point of the papers' grids (skew, memory, rows per key) as a table and a stream.
- `check`: predicted against measured over the grid. `core_bench`, `core_grid`, `rivals`: `make bench-core`.
"""
