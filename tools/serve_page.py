"""Take the picture of the live page for README.md: a stream that changes, with delayed labels.

Needs Playwright and Chromium. See docs/serve.md.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from budgetron.client import Client

ROWS, CHANGE, DELAY = 6000, 3600, 40
MODEL = {
    "columns": {"amount": "number", "hour": "number", "country": ["de", "fr", "it"]},
    "classes": ["fraud", "ok"],
}


def stream(seed: int = 0) -> list[tuple[dict[str, object], str]]:
    """Return rows and labels; the rule changes after `CHANGE` rows."""
    random = np.random.default_rng(seed)
    found: list[tuple[dict[str, object], str]] = []
    for number in range(ROWS):
        amount, hour = float(random.normal(100, 40)), float(random.uniform(0, 24))
        country = ["de", "fr", "it"][int(random.integers(3))]
        late = hour > 16 if number < CHANGE else hour < 8
        label = "fraud" if (amount > 110) == late else "ok"
        found.append(({"amount": round(amount, 2), "hour": round(hour, 2), "country": country}, label))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/serve/page.png"))
    output = parser.parse_args().output
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "budgetron", "serve", folder, "--port", "0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        url = process.stderr.readline().split(" at ")[1].strip()
        try:
            with Client(url, model="payments") as client:
                client.create(learner="budget", memory="2MB", **MODEL)
                send(client)
            picture(url, output)
        finally:
            process.terminate()
            process.wait(60)
    print(f"Picture: {output}")


def send(client: Client) -> None:
    """Predict all rows; send their labels 40 rows later, a few at a time."""
    waiting: list[tuple[str, str]] = []
    rows = stream()
    for start in range(0, ROWS, 20):
        part = rows[start : start + 20]
        found = client.predict([row for row, _ in part])
        waiting += [(one["id"], label) for one, (_, label) in zip(found, part, strict=True)]
        ready, waiting = waiting[:-DELAY], waiting[-DELAY:]
        if ready:
            client.learn(dict(ready))


def picture(url: str, output: Path) -> None:
    browser = shutil.which("chromium")
    with sync_playwright() as started:
        page = started.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page(
            viewport={"width": 1000, "height": 700}
        )
        page.goto(url)
        page.wait_for_timeout(1500)
        page.screenshot(path=output, full_page=True)


if __name__ == "__main__":
    main()
