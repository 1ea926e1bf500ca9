import gc
import os
import signal
import sys
from pathlib import Path

# Tests run in parallel, one per processor, so BLAS threads would only compete. Set before NumPy is imported;
# also used by the processes that tests start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from quick import is_quick

# A slow example is not a failure: the load of machines varies.
settings.register_profile("budgetron", deadline=None, derandomize=True)
settings.load_profile("budgetron")

# The longest tests. They start first: if one started last, the other processors would wait for it.
LONGEST = (
    "test_on_spark",
    "test_no_work_has_become_more_expensive",
    "test_interrupted_by_ctrl_c",
    "test_killed_at_random_moments",
    "test_the_service_killed_at_random_moments_loses_nothing",
    "test_add_a_learner_in_one_file",
    "test_attacks_on_model_files",
    "test_a_second_run_resumes",
    "test_the_gallery",
)


@pytest.fixture
def interrupts():
    """Let Ctrl-C raise KeyboardInterrupt, even if the shell that started this process disabled it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def pytest_collection_modifyitems(items):
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.name.partition("[")[0], len(LONGEST)))
    for item in items:
        if is_quick(item):
            item.add_marker(pytest.mark.quick)


def pytest_collection_finish():
    # Collected tests are never garbage. Without this, every full garbage collection would look through them.
    gc.collect()
    gc.freeze()
