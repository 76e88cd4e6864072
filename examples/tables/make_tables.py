"""The tables that the documentation's commands read: tides with noise, two channels with holes. All generated.

python examples/tables/make_tables.py         1 CPU second
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def tides() -> list[str]:
    """Ten days of an hourly water level in meters: the moon's and the sun's half-day tides, a daily one, noise of 2 cm."""
    rng = np.random.default_rng(0)
    hour = np.arange(240.0)
    lunar = 1.2 * np.cos(2 * np.pi * hour / 12.4206 - 0.7) + 0.25 * np.cos(2 * np.pi * hour / 25.8193 - 2.0)
    height = 3 + lunar + 0.4 * np.cos(2 * np.pi * hour / 12.0 - 1.1) + 0.02 * rng.normal(size=240)
    return ["hour,height", *(f"{h:.0f},{v:.3f}" for h, v in zip(hour, height, strict=True))]


def later() -> list[str]:
    """Hours at which the level is wanted: the day after."""
    return ["hour", *(f"{h:g}" for h in np.arange(240.0, 264.5, 0.5))]


def series() -> list[str]:
    """Two weeks of hourly temperature and humidity with a daily rhythm; 15 % of the values and one whole night are missing."""
    rng = np.random.default_rng(1)
    hour = np.arange(336)
    day = 2 * np.pi * hour / 24
    values = np.stack([15 + 5 * np.sin(day) + np.sin(2 * day), 60 - 12 * np.sin(day - 0.4)], axis=1)
    values += rng.normal(0.0, [0.3, 1.0], values.shape)
    values[rng.random(values.shape) < 0.15] = np.nan
    values[140:152] = np.nan
    cell = lambda v: "" if np.isnan(v) else f"{v:.2f}"
    return ["hour,temperature,humidity", *(f"{h},{cell(a)},{cell(b)}" for h, (a, b) in zip(hour, values, strict=True))]


TABLES = {"tides.csv": tides, "later.csv": later, "series.csv": series}


def main(folder: Path = HERE) -> None:
    for name, make in TABLES.items():
        (folder / name).write_text("\n".join(make()) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
