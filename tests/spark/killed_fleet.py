"""Learn a fleet on Spark, and kill this process and the JVM with SIGKILL at a chosen moment.

    python killed_fleet.py MASTER FOLDER "states 0" | "outputs 0"

The number is that of a micro-batch. "states" is after its states were committed, and before any of its output
was written. "outputs" is after its output was written, and before Spark records that it is complete.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from spark_session import new_session
from test_fleet_on_spark import OPTIONS, SCHEMA, new_fleet

from budgetron.spark import learn_fleet, write_outputs


def main():
    master, folder, moment = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    spark = new_session(master)
    rows = spark.readStream.schema(SCHEMA.format("bigint")).option("maxFilesPerTrigger", 1)
    result = learn_fleet(rows.json(str(folder / "rows")), new_fleet(), **OPTIONS)
    write = write_outputs(folder / "predictions", folder / "rejected")

    def write_or_die(df, batch):
        if moment == f"states {batch}":
            df.persist().count()  # learns all rows, and commits the states
            os.killpg(0, signal.SIGKILL)
        write(df, batch)
        if moment == f"outputs {batch}":
            os.killpg(0, signal.SIGKILL)

    writer = result.writeStream.foreachBatch(write_or_die)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
