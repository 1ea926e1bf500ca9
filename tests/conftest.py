import gc
import os
import sys
from pathlib import Path

# Tests run side by side, one for each processor: threads of BLAS would wait for each other and do nothing
# else. Before NumPy is imported, and for the processes that tests start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# Machines are noisy: a slow example is no failure.
settings.register_profile("budgetron", deadline=None, derandomize=True)
settings.load_profile("budgetron")


def pytest_collection_finish():
    # What thousands of collected tests keep is looked through by every full collection of garbage, and none
    # of it is any.
    gc.collect()
    gc.freeze()
