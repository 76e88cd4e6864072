"""Example problems as text, and what strangers may make of them."""

import random
from pathlib import Path

EXAMPLES = sorted((Path(__file__).parents[1] / "examples" / "problems").glob("*.toml"))


def mutated(text: str, rng: random.Random) -> str:
    """The text with a few characters, words or lines changed."""
    words = [
        "__import__('os')",
        "eval",
        "**",
        "9" * 400,
        "{}",
        "[",
        '"',
        "=",
        "\n",
        "u_tttt",
        "nan",
        "é",
        "\x00",
        "(" * 80,
        "-1",
        "x.y",
        "1e400",
        "[control]",
        "[data]\nfile = '/dev/null'\n",
    ]
    for _ in range(rng.randint(1, 4)):
        i, j = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        j = min(j, i + rng.choice([0, 1, 3, 30]))
        text = text[:i] + rng.choice([*words, "", text[i:j] * 2, chr(rng.randrange(32, 127))]) + text[j:]
    return text
