"""The pictures of docs/gallery.md, from the examples' own files: python scripts/docs_gallery.py [FOLDER]."""

import sys
from pathlib import Path

import flm
from flm.files import write_atomic
from flm.report.figures.style import to_png

ROOT = Path(__file__).parents[1]
# file: (tolerance, how it is drawn)
PICTURES = {
    "heat": (1e-6, {"error": False}),
    "cooling_fin": (1e-6, {"error": False}),
    "wave": (1e-6, {"error": False}),
    "acoustics": (1e-6, {"error": False}),
    "annulus": (1e-4, {"error": False}),
    "clamped_beam": (1e-6, {"error": False}),
    "fisher_front": (1e-4, {"error": False}),
    "burgers": (1e-2, {"error": False}),
    "two_solitons": (1e-3, {"error": False}),
    "find_diffusivity": (1e-4, {"error": False}),
    "strangers/lotka_volterra": (1e-4, {"error": False}),
    "regulator": (1e-4, {}),
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (tol, options) in PICTURES.items():
        problem = flm.problems.read_problem(ROOT / "examples" / "problems" / f"{name}.toml")
        solution = flm.solve(problem, tol)
        print(f"{name}: {solution.status.sentence} {solution.seconds:.1f} s", flush=True)
        write_atomic(folder / f"{Path(name).name}.png", to_png(solution.plot(**options), dpi=70))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "gallery")
