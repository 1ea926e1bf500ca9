"""Run the tests of `budgetron.spark` in one process, with one Spark session, while others run in parallel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_session import missing

FOLDER = Path(__file__).parent / "spark"


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="tests/spark is part of this run")
@pytest.mark.skipif(bool(missing()), reason=missing() or "PySpark and Java are there")
def test_on_spark():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-q", str(FOLDER)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
