"""A data set of taxi trips as CSV, and what is in it.

Run with the kernels' Python: `trips.py FILE ROWS SEED`. Prints, as JSON, facts that are computed from the arrays
before they become text, with numpy alone: an analysis by pandas of the file must come to the same.
"""

import json
import sys

import numpy as np
import pyarrow as pa
from pyarrow import csv

ZONES = [f"{place}-{number:02}" for place in ("airport", "harbour", "market", "station", "suburb") for number in range(8)]
PAYMENTS = ["app", "card", "cash"]
LONGEST_KM = 60
HIGHEST_FARE = 1000


def make(rows, seed):
    """Columns of the data set; money in cents, distances in metres, -1 for a fare that is missing."""
    chance = np.random.default_rng(seed)
    second = np.sort(chance.integers(0, 31 * 86400, rows))
    zone = np.minimum(chance.geometric(0.06, rows) - 1, len(ZONES) - 1)
    metres = (np.minimum(chance.gamma(2.0, 3.0, rows), LONGEST_KM) * 100).astype(np.int64) * 10 + 10
    night = (second // 3600 % 24 < 6).astype(np.int64)
    fare = 350 + metres * 18 // 100 + 200 * night + 15 * zone + chance.integers(0, 200, rows)
    # What is wrong with real data: missing values, distances below zero, decimal points that slipped.
    dirt = chance.random(rows)
    metres = np.where((0.010 < dirt) & (dirt < 0.015), -metres, metres)
    fare = np.where(dirt > 0.9999, fare * 1000, fare)
    fare = np.where(dirt < 0.010, -1, fare)
    return {
        "second": second,
        "zone": zone,
        "metres": metres,
        "fare": fare,
        "payment": chance.integers(0, len(PAYMENTS), rows),
        "driver": chance.integers(100_000, 999_999, rows),
        "passengers": chance.integers(1, 6, rows),
    }


def write(columns, file):
    """The columns as a CSV file with a header."""
    table = pa.table(
        {
            "pickup": pa.array(columns["second"] + 1_767_225_600, pa.timestamp("s")),
            "zone": pa.array(ZONES).take(pa.array(columns["zone"])),
            "payment": pa.array(PAYMENTS).take(pa.array(columns["payment"])),
            "driver": columns["driver"],
            "passengers": columns["passengers"],
            "distance_km": columns["metres"] / 1000,
            "fare": pa.array(columns["fare"] / 100, mask=columns["fare"] < 0),
        }
    )
    csv.write_csv(table, file, csv.WriteOptions(quoting_style="none"))


def facts(columns):
    """What an analysis must find."""
    fare, zone = columns["fare"], columns["zone"]
    kept = (fare >= 0) & (columns["metres"] > 0) & (fare < HIGHEST_FARE * 100)
    counts = np.bincount(zone[kept], minlength=len(ZONES))
    cents = np.bincount(zone[kept], weights=fare[kept], minlength=len(ZONES))
    hour = columns["second"] // 3600 % 24
    hours = np.bincount(hour[kept], weights=fare[kept]) / np.bincount(hour[kept]) / 100
    return {
        "rows": len(fare),
        "missing": int((fare < 0).sum()),
        "kept": int(kept.sum()),
        "mean_fare": int(fare[kept].sum()) / int(kept.sum()) / 100,
        "highest": sorted((fare[kept] / 100).tolist(), reverse=True)[:3],
        "long_market_trips": int((kept & (zone == ZONES.index("market-00")) & (columns["metres"] > 30_000)).sum()),
        "zones": {name: [int(n), c / n / 100] for name, n, c in zip(ZONES, counts, cents) if n},
        "hours": hours.tolist(),
    }


if __name__ == "__main__":
    path, rows, seed = sys.argv[1:]
    made = make(int(rows), int(seed))
    write(made, path)
    print(json.dumps(facts(made)))
