"""A table as shops have them: an id, dates, codes, many categories, gaps, booleans and quoted text.

``python tests/messy.py messy.csv 20000`` writes one.
"""

import csv
import sys

import numpy as np

WORDS = ["late", "broken", "great", "fast", "refund", "fine", "again", "never", "happy", "slow"]
WORD_EFFECTS = np.array([0.8, 1.2, -1.0, -0.5, 1.3, 0.0, 0.0, 0.6, -0.9, 0.5])
NAMES = [
    *("transaction_id", "timestamp", "birth_date", "zip", "merchant", "amount", "age", "channel", "member"),
    *("comment", "note", "returned"),
]


def rows(n, seed=0):
    """Return the rows of the table as text; the label, `returned`, is the last column."""
    rng = np.random.default_rng(seed)
    seconds = np.cumsum(rng.exponential(600.0, n)).astype("timedelta64[s]")
    when = np.datetime64("2023-03-01T00:00:00") + seconds
    hour = when.astype("datetime64[h]").astype(int) % 24
    weekday = (when.astype("datetime64[D]").astype(int) + 3) % 7
    birth = np.datetime64("1950-01-01") + rng.integers(0, 18_000, n)
    merchant = np.minimum(rng.zipf(1.3, n), 4000)
    codes, area = rng.integers(501, 99_950, 300), rng.integers(0, 300, n)
    amount, age = np.exp(rng.normal(3, 1, n)).round(2), rng.normal(45, 15, n).round()
    channel, member = rng.choice(["web", "shop", "phone"], n, p=[0.5, 0.4, 0.1]), rng.random(n) < 0.4
    words = rng.integers(0, len(WORDS), (n, 4))
    score = 0.9 * rng.normal(size=4001)[merchant] + 0.7 * rng.normal(size=300)[area]
    score += 0.8 * (np.log(amount) - 3) * np.where(channel == "web", 1, -1) - 0.5 * member
    score += 0.4 * (age - 45) / 15 * np.where(member, 1, -1) + 0.8 * WORD_EFFECTS[words].sum(axis=1)
    score += np.sin(2 * np.pi * hour / 24) + 0.6 * (weekday >= 5)
    label = score - np.median(score) + 0.5 * rng.logistic(size=n) > 0
    no_amount, no_age, no_channel = rng.random((3, n)) < np.array([[0.04], [0.1], [0.05]])
    numbers = rng.permutation(10**6)
    return [
        [
            f"T{numbers[i % 10**6]:09d}",
            str(when[i]).replace("T", " "),
            str(birth[i]),
            f"{codes[area[i]]:05d}",
            f"M{merchant[i]:05d}",
            "NA" if no_amount[i] else f"{amount[i]:.2f}",
            "?" if no_age[i] else f"{age[i]:.0f}",
            "" if no_channel[i] else str(channel[i]),
            "true" if member[i] else "false",
            " ".join(WORDS[word] for word in words[i]) + ", said the customer",
            'paid, then asked for "more"',
            "yes" if label[i] else "no",
        ]
        for i in range(n)
    ]


def write(path, n, seed=0):
    """Write the table as CSV."""
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([NAMES, *rows(n, seed)])
    return path


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]))
