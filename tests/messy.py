"""Tables as people have them: ids, dates, codes, many categories, gaps, booleans and quoted text.

``python tests/messy.py orders.csv 20000`` writes one. The rules for columns were chosen on `orders` with
seed 0. `sensors` and `visits` were written later, and are read by the same rules.
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


def orders(n, seed=0):
    """Return rows of a shop as text; the label, `returned`, is the last column."""
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


SENSOR_NAMES = [
    *("Messung-Nr.", "Kennung", "Zeitpunkt", "Maschine", "Werkstoff", "Temperatur", "Druck", "Umsatz"),
    *("Bemerkung", "Ausschuss"),
]


def sensors(n, seed=0):
    """Return rows of a factory: decimal commas, German dates, a row number, line breaks in quotes."""
    rng = np.random.default_rng(seed)
    when = np.datetime64("2024-01-01T00:00") + np.cumsum(rng.integers(1, 30, n)).astype("timedelta64[m]")
    hour = when.astype("datetime64[h]").astype(int) % 24
    machine, material = rng.integers(0, 180, n), np.minimum(rng.zipf(1.5, n), 700)
    heat, pressure = rng.normal(80.0, 12.0, n), rng.gamma(3.0, 2.0, n)
    revenue = np.exp(rng.normal(8.0, 1.5, n))
    score = 1.2 * rng.normal(size=180)[machine] + rng.normal(size=701)[material] + (heat - 80) / 12
    score += 0.5 * (pressure - 6) - 0.4 * (np.log(revenue) - 8) + 0.8 * ((hour < 6) | (hour >= 22))
    label = score - np.median(score) + 0.5 * rng.logistic(size=n) > 0
    no_heat, no_material = rng.random((2, n)) < 0.06
    notes = rng.choice(["", "", "", "geprüft", "Ventil\nundicht", "siehe Blatt 2"], n)
    keys = rng.integers(0, 2**62, (n, 2))
    return [
        [
            str(100_000 + i),
            f"{keys[i, 0]:016x}-{keys[i, 1]:016x}",
            f"{str(when[i])[8:10]}.{str(when[i])[5:7]}.{str(when[i])[:4]} {str(when[i])[11:16]}",
            f"M{machine[i]:03d}",
            "-" if no_material[i] else f"W-{material[i]}",
            "" if no_heat[i] else f"{heat[i]:.1f}".replace(".", ","),
            f"{pressure[i]:.3f}".replace(".", ","),
            f"{revenue[i]:,.2f}".translate(str.maketrans(",.", ".,")),
            str(notes[i]),
            "ja" if label[i] else "nein",
        ]
        for i in range(n)
    ]


VISIT_NAMES = [
    "sessionId",
    "customer_id",
    "started",
    "epoch_ms",
    "country",
    "referrer",
    "spent",
    "pages",
    "plan",
]
VISIT_NAMES += ["device", "score", "bought"]


def visits(n, seed=0):
    """Return rows of a web site: American dates, Unix times, returning customers, an empty column."""
    rng = np.random.default_rng(seed)
    seconds = np.cumsum(rng.exponential(90.0, n))
    when = np.datetime64("2024-02-20T00:00:00") + seconds.astype("timedelta64[s]")
    stamp = when.astype("datetime64[ms]").astype(np.int64)
    hour = when.astype("datetime64[h]").astype(int) % 24
    customer, country = np.minimum(rng.zipf(1.2, n), 3000), rng.integers(0, 40, n)
    referrer, spent = np.minimum(rng.zipf(1.4, n), 900), np.exp(rng.normal(5, 1.5, n))
    pages, device = rng.poisson(6.0, n), rng.choice(["phone", "desktop", "tablet"], n, p=[0.6, 0.3, 0.1])
    score = rng.normal(size=3001)[customer] + 0.6 * rng.normal(size=40)[country]
    score += 0.8 * rng.normal(size=901)[referrer] + 0.25 * (pages - 6) * np.where(device == "phone", 1, -1)
    score += 0.4 * (np.log(spent) - 5) + 0.7 * np.cos(2 * np.pi * hour / 24)
    label = score - np.median(score) + 0.5 * rng.logistic(size=n) > 0
    no_spent, no_country = rng.random((2, n)) < 0.08
    clock = [str(moment) for moment in when]
    twelve, half = (hour + 11) % 12 + 1, np.where(hour < 12, "AM", "PM")
    return [
        [
            f"s-{rng.integers(0, 2**40):010x}",
            str(700_000 + 13 * customer[i]),
            f"{int(clock[i][5:7])}/{int(clock[i][8:10])}/{clock[i][:4]} "
            f"{twelve[i]}:{clock[i][14:16]} {half[i]}",
            str(stamp[i]),
            "N/A" if no_country[i] else f"C{country[i]:02d}",
            f"https://site{referrer[i]}.example/path",
            "null" if no_spent[i] else f"${spent[i]:,.2f}"[1:],
            str(pages[i]),
            "basic",
            str(device[i]),
            "",
            str(int(label[i])),
        ]
        for i in range(n)
    ]


# Of each table: the rows, the names of the columns, and the delimiter.
TABLES = {
    "orders": (orders, NAMES, ","),
    "sensors": (sensors, SENSOR_NAMES, ";"),
    "visits": (visits, VISIT_NAMES, ","),
}


def write(path, n, seed=0, table="orders"):
    """Write a table as CSV."""
    rows, names, delimiter = TABLES[table]
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([names, *rows(n, seed)])
    return path


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]))
