"""What every way to read a file promises: the right bytes at the right addresses, or an error."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semistream.master_table import files
from semistream.master_table.files import BlockFile, LocalFile
from semistream.testing.discovery import implementations, make

BLOCKS = 40
BLOCK_BYTES = 512

# A file that `open_file` wraps is asked for through `open_file`.
MAKERS: Mapping[type, Callable[..., Any]] = {
    kind: (lambda path, kind=kind: kind(path) if issubclass(kind, LocalFile) else files.open_file(path))
    for kind in implementations(BlockFile, "semistream.master_table.files")
}


def _content() -> bytes:
    return np.random.default_rng(1).bytes(BLOCKS * BLOCK_BYTES)


def _bytes_at(address: int) -> bytes:
    return ctypes.string_at(address, BLOCK_BYTES)


@pytest.mark.parametrize("implementation", implementations(BlockFile, "semistream.master_table.files"))
class BlockFileContract:
    """Subclass it in a test module to run it."""

    def test_can_be_made(self, implementation: type, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(_content())
        file = make(MAKERS, implementation, path=tmp_path / "file")
        assert file.size_bytes == BLOCKS * BLOCK_BYTES
        assert file.blocks_at_once(BLOCK_BYTES) >= 1
        file.close()

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(blocks=st.lists(st.integers(0, BLOCKS - 1), unique=True, max_size=BLOCKS).map(sorted))
    def test_blocks_are_what_was_written(
        self, implementation: type, tmp_path: Path, blocks: list[int]
    ) -> None:
        content, path = _content(), tmp_path / "file"
        if not path.exists():
            path.write_bytes(content)
        file = make(MAKERS, implementation, path=path)
        wanted = np.array(blocks, np.int64)
        file.prefetch(wanted, BLOCK_BYTES)
        found = [_bytes_at(address) for address in file.fetch(wanted, BLOCK_BYTES).tolist()]
        assert found == [content[b * BLOCK_BYTES : (b + 1) * BLOCK_BYTES] for b in blocks]
        file.close()

    def test_ranges_are_what_was_written(self, implementation: type, tmp_path: Path) -> None:
        content, path = _content(), tmp_path / "file"
        path.write_bytes(content)
        file = make(MAKERS, implementation, path=path)
        for start, size in ((0, 1), (100, 5000), (len(content) - 3, 3), (7, 0)):
            target = np.zeros(size, np.uint8)
            file.read(start, target)
            assert target.tobytes() == content[start : start + size]
        with pytest.raises(EOFError):
            file.read(len(content) - 3, np.zeros(4, np.uint8))
        file.close()

    @pytest.mark.parametrize("blocks", [[BLOCKS], [0, BLOCKS - 1, BLOCKS], [BLOCKS + 5]])
    def test_a_block_behind_the_end_is_an_error(
        self, implementation: type, tmp_path: Path, blocks: list[int]
    ) -> None:
        (tmp_path / "file").write_bytes(_content())
        file = make(MAKERS, implementation, path=tmp_path / "file")
        with pytest.raises(EOFError):
            file.fetch(np.array(blocks, np.int64), BLOCK_BYTES)
        file.close()

    def test_a_file_cut_off_while_open_is_an_error(self, implementation: type, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(_content())
        file = make(MAKERS, implementation, path=tmp_path / "file")
        os.truncate(tmp_path / "file", 3 * BLOCK_BYTES + 1)
        assert file.size_bytes == 3 * BLOCK_BYTES + 1
        with pytest.raises(EOFError):
            file.fetch(np.array([0, 3], np.int64), BLOCK_BYTES)
        assert _bytes_at(int(file.fetch(np.array([2], np.int64), BLOCK_BYTES)[0])) == _content()[1024:1536]
        file.close()

    def test_a_missing_file_is_an_error(self, implementation: type, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            make(MAKERS, implementation, path=tmp_path / "nowhere")
