"""The mark of tests that limit the address space of a process."""

import os

import pytest

limits_memory = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="AddressSanitizer reserves more address space than the test allows",
)
