"""The selection of `pytest -m quick` names tests that exist."""

from pathlib import Path

import pytest
from quick import QUICK


@pytest.mark.parametrize("file", QUICK)
def test_every_selected_function_exists(file):
    text = (Path(__file__).parent / file).read_text()
    missing = [name for name in QUICK[file] if f"def {name}(" not in text]
    assert not missing, f"tests/quick.py: not in {file}: {missing}"
