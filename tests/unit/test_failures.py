"""Errors of ours are found in whatever Spark wraps around them; these texts are what Spark 4.3 printed."""

from __future__ import annotations

import pytest

from semistream.errors import BudgetError, CorruptionError, SemistreamError
from semistream.spark.failures import own_error, readable

TRACEBACK = """\
An exception was thrown from the Python worker: Traceback (most recent call last):
  File "semistream/spark/join.py", line 125, in run
    yield from run_task(spec, batches)
  File "semistream/access_path/planned.py", line 147, in _fetch_shard
    while self._match(reader, keys, plan, window):
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
DAMAGE = CorruptionError("page 2 of the shard file s/0.pages is damaged.", hint="restore the file.")
STREAM = """\
[STREAM_FAILED] Query [id = 2395a395, runId = 605f64ab] terminated with exception: {cause} SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 2395a395, runId = 605f64ab]
Current Committed Offsets: {{}}
Logical Plan:
WriteToMicroBatchDataSource noop-table
+- ~Project [id#51L, custkey#52L, name#53]
"""
PY4J = """\
An error occurred while calling o402.parquet.
: org.apache.spark.SparkException: [FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Could not read footer.
If not, convert it. SQLSTATE: KD001
	at org.apache.spark.X.y(X.scala:1)
"""


def _worker(raised: str) -> str:
    return f"[PYTHON_EXCEPTION] {TRACEBACK}{raised}\n SQLSTATE: 38000"


@pytest.mark.parametrize(
    "text",
    [
        f"{TRACEBACK}semistream.errors.CorruptionError: {DAMAGE}",
        STREAM.format(cause=_worker(f"semistream.errors.CorruptionError: {DAMAGE}")),
    ],
    ids=["batch", "stream"],
)
def test_our_own_error_comes_back_as_it_was_raised(text: str) -> None:
    found = readable(RuntimeError(text))
    assert type(found) is CorruptionError
    assert (found.message, found.hint) == (DAMAGE.message, DAMAGE.hint)


def test_an_error_of_ours_passes_through() -> None:
    error = BudgetError("too little.", hint="more.")
    assert readable(error) is error


def test_an_unknown_kind_of_ours_keeps_its_words() -> None:
    found = own_error("semistream.errors.NewError: what happened.\nHint: what to do.\n SQLSTATE: 38000")
    assert type(found) is SemistreamError
    assert (found.message, found.hint) == ("what happened.", "what to do.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/nope. SQLSTATE: 42K03",
            "[PATH_NOT_FOUND] Path does not exist: file:/nope.",
        ),
        (
            STREAM.format(cause="[FAILED_READ_FILE.NO_HINT] Error while reading file:///x.  SQLSTATE: KD001"),
            "[FAILED_READ_FILE.NO_HINT] Error while reading file:///x.",
        ),
        (
            PY4J,
            "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Could not read footer. If not, convert it.",
        ),
        (STREAM.format(cause=_worker("AssertionError: 3 rows in\n5 out")), "AssertionError: 3 rows in 5 out"),
        (
            "An error occurred while calling o1.x.\n: java.lang.IllegalStateException: it is closed\n\tat a.b(c)",
            "it is closed",
        ),
        ("", "RuntimeError"),
    ],
    ids=["analysis", "stream", "py4j", "worker", "java", "empty"],
)
def test_spark_s_own_errors_become_one_line(text: str, message: str) -> None:
    found = readable(RuntimeError(text))
    assert found.message == f"Spark failed: {message}"
    assert "--debug" in found.hint
