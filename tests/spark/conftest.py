"""One Spark session for all tests of `budgetron.spark`. Everything listens on loopback only.

With pytest-xdist, every process would start a session of its own. So these tests are not collected there;
`test_spark.py` runs them in one process instead.
"""

import os
import sys

import pytest
from spark_session import missing, new_session

if "PYTEST_XDIST_WORKER" in os.environ:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items):
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            # PySpark warns about each new version of pandas.
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def spark():
    if missing():
        pytest.skip(missing())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = new_session("local[2]")
    yield session
    session.stop()
