import gc
import os
import signal
import sys
from pathlib import Path

# Tests run side by side, one for each processor: threads of BLAS would wait for each other and do nothing
# else. Before NumPy is imported, and for the processes that tests start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# Machines are noisy: a slow example is no failure.
settings.register_profile("budgetron", deadline=None, derandomize=True)
settings.load_profile("budgetron")

# Those that take longest, by themselves. One that starts last is waited for by all other processors.
LONG = (
    "test_no_work_has_become_dearer",
    "test_interrupted_as_a_user_would",
    "test_killed_at_random_moments",
    "test_add_a_learner_in_one_file",
    "test_attacks_on_model_files",
    "test_a_run_goes_on_where_it_stopped",
    "test_the_gallery",
)


@pytest.fixture
def interrupts():
    """Ctrl-C raises KeyboardInterrupt, whatever the shell that started us thinks of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def pytest_collection_modifyitems(items):
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.name.partition("[")[0], len(LONG)))


def pytest_collection_finish():
    # What thousands of collected tests keep is looked through by every full collection of garbage, and none
    # of it is any.
    gc.collect()
    gc.freeze()
