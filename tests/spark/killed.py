"""Learn a stream on Spark until a chosen moment, and then kill this process and the JVM with SIGKILL.

    python killed.py MASTER FOLDER "after 0" | "before 1" | "never"

"after 0" is after the state of batch 0 was written, before Spark records that the batch is complete;
"before 1" is when batch 1 was learned, and its state is to be written. FOLDER has the rows and the start.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from spark_session import new_session

import budgetron
from budgetron.spark import learn
from budgetron.spark._versions import ModelVersions


def main():
    master, folder, moment = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    spark = new_session(master)
    write = ModelVersions.write

    def write_or_die(self, batch, model):
        if moment == f"before {batch}":
            os.killpg(0, signal.SIGKILL)
        write(self, batch, model)
        if moment == f"after {batch}":
            os.killpg(0, signal.SIGKILL)

    ModelVersions.write = write_or_die
    rows = spark.readStream.schema("time bigint, x array<double>, y bigint").option("maxFilesPerTrigger", 1)
    query = learn(
        rows.json(str(folder / "rows")),
        budgetron.load(folder / "start.budgetron"),
        features="x",
        label="y",
        order="time",
        checkpoint=folder / "checkpoint",
        workers=3,
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
