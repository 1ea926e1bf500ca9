"""Learn and predict on Apache Spark, with streaming and batch frames.

`predict` applies a frozen model. `learn` learns one model with several workers, which are merged once per
micro-batch, and `read_model` reads the newest state of it. `learn_fleet` learns one small model per key, and
`read_fleet` or `read_buckets` read all of them. `split_rejected` and `write_outputs` separate predictions
from invalid rows. It needs PySpark 4 and Java 17 or newer:
``pip install budgetron[spark]``.

Nothing else in the library imports this package.
"""

try:
    import pyspark  # noqa: F401 - only whether it is there
except ImportError:
    raise ImportError(
        "budgetron.spark needs PySpark: pip install budgetron[spark]; Spark needs Java 17 or newer"
    ) from None

from budgetron.spark._fleet import learn_fleet
from budgetron.spark._fleet_states import read_buckets, read_fleet
from budgetron.spark._learn import learn
from budgetron.spark._outputs import Outputs, split_rejected, write_outputs
from budgetron.spark._predict import predict
from budgetron.spark._versions import read_model

__all__ = [
    "Outputs",
    "learn",
    "learn_fleet",
    "predict",
    "read_buckets",
    "read_fleet",
    "read_model",
    "split_rejected",
    "write_outputs",
]
