"""Draw the picture of the README: docs/images/first.png.

python scripts/readme_figure.py
"""

from pathlib import Path

import flm

solution = flm.solve(flm.problems.black_scholes(), tol=1e-10)
path = Path(__file__).parent.parent / "docs" / "images" / "first.png"
path.parent.mkdir(exist_ok=True)
solution.plot(spectrum=True).savefig(path, dpi=110)
