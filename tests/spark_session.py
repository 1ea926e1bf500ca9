"""Spark sessions for tests, which listen on loopback only."""

import os
import shutil
import sys
from importlib.util import find_spec

# Seconds that Python and the JVM wait for each other. On a busy machine, Spark's 15 seconds are too short.
PATIENCE = 120

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def missing():
    """Return why the tests of `budgetron.spark` cannot run; an empty text if they can."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed: pip install budgetron[spark]"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "Spark needs Java 17 or newer, and there is no java"
    return ""


def new_session(master):
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = str(PATIENCE)
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.python.authenticate.socketTimeout": f"{PATIENCE}s",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(master).appName("budgetron tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
