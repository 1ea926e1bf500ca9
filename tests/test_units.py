"""Sizes in bytes, and rows in blocks."""

import numpy as np
import pytest

from budgetron import BudgetClassifier
from budgetron._util.blocks import row_blocks
from budgetron._util.units import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (1, 1),
        (np.int64(4096), 4096),
        ("1000", 1000),
        ("12 B", 12),
        ("64kB", 64 * 2**10),
        ("16MB", 16 * 2**20),
        ("16 mb", 16 * 2**20),
        ("16M", 16 * 2**20),
        ("16MiB", 16 * 2**20),
        ("1.5GB", 3 * 2**29),
        (" 2 GB ", 2**31),
    ],
)
def test_parse(size, count):
    assert parse_bytes(size) == count


@pytest.mark.parametrize(
    "size", ["", "MB", "much", "-1MB", "0", "0.5", "1e6", "16 MB more", "16PB", 0, -5, True, 1.5, None, b"1"]
)
def test_parse_rejects_bad_input(size):
    with pytest.raises(
        ValueError, match=r'cache must be a number of bytes above 0, or text like "64kB"'
    ) as error:
        parse_bytes(size, "cache")
    assert str(error.value).endswith(f"got {size!r}")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1 kB"),
        (12_345, "12.1 kB"),
        (1023.6 * 1024, "1 MB"),
        (16 * 2**20, "16 MB"),
        (2**30, "1 GB"),
        (3 * 2**39, "1.5 TB"),
        (5000 * 2**40, "5000 TB"),
    ],
)
def test_format(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize("text", ["1 B", "999 B", "64 kB", "16 MB", "100 MB", "1.5 GB", "2 GB"])
def test_format_and_parse_are_inverse(text):
    assert format_bytes(parse_bytes(text)) == text
    assert parse_bytes(format_bytes(parse_bytes(text))) == parse_bytes(text)


def test_a_full_memory_limit_prints_as_given():
    limit = parse_bytes(BudgetClassifier().memory)
    assert format_bytes(limit) == "16 MB"


@pytest.mark.parametrize(("n_rows", "block_rows"), [(0, 3), (1, 3), (3, 3), (7, 3), (4096, 1), (5, 10**9)])
def test_row_blocks_cover_every_row_once(n_rows, block_rows):
    rows = np.arange(n_rows)
    blocks = [rows[block] for block in row_blocks(n_rows, block_rows)]
    assert np.concatenate([rows[:0], *blocks]).tolist() == rows.tolist()
    assert all(0 < len(block) <= block_rows for block in blocks)
    assert all(len(block) == block_rows for block in blocks[:-1])


def test_row_blocks_need_a_positive_size():
    with pytest.raises(ValueError, match="block_rows must be at least 1; got 0"):
        list(row_blocks(3, 0))
