"""Learn a fleet on Spark, and kill this process and the JVM with SIGKILL in a chosen batch.

    python killed_fleet.py FOLDER BATCH

The moment is after the states and the output of the batch were written, before Spark records that it is
complete.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from spark_session import new_session
from test_fleet_on_spark import OPTIONS, SCHEMA, new_fleet

from budgetron.spark import learn_fleet


def main():
    folder, last = Path(sys.argv[1]), int(sys.argv[2])
    spark = new_session("local[2]")
    rows = spark.readStream.schema(SCHEMA.format("bigint")).option("maxFilesPerTrigger", 1)
    result = learn_fleet(rows.json(str(folder / "rows")), new_fleet(), **OPTIONS)

    def write(df, batch):
        df.write.mode("overwrite").parquet(f"{folder}/out/batch={batch}")
        if batch == last:
            os.killpg(0, signal.SIGKILL)

    writer = result.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
