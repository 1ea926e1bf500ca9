"""A CSV larger than memory should see, through a pipe: the largest resident size of `budgetron run -`."""

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np


def feed(pipe, megabytes):
    """Rows of ten numbers and a label, made from one piece again and again."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 10))
    y = np.where(X[:, 0] * X[:, 1] > 0, "up", "down")
    piece = "".join(
        ",".join(f"{v:.6f}" for v in row) + f",{label}\n" for row, label in zip(X, y, strict=True)
    ).encode()
    pipe.write((",".join([*(f"x{j}" for j in range(10)), "label"]) + "\n").encode())
    for _ in range(megabytes * 1_000_000 // len(piece) + 1):
        pipe.write(piece)
    pipe.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2000)
    options = parser.parse_args()
    command = [sys.executable, "-m", "budgetron", "run", "-", "--target", "label"]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    feeder = threading.Thread(target=feed, args=(process.stdin, options.megabytes))
    feeder.start()
    peak = 0
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        lines = status.read_text().splitlines() if status.exists() else []
        peak = max([peak, *(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))])
        time.sleep(0.2)
    feeder.join()
    seconds = time.perf_counter() - start
    print(f"{options.megabytes} MB in {seconds:.0f} s: {options.megabytes / seconds:.0f} MB/s")
    print(f"largest resident size {peak / 1000:.0f} MB; exit code {process.returncode}")


if __name__ == "__main__":
    main()
