"""Regenerate the constants of flm/series/waves.py: minimax polynomials by Remez exchange, and pi/2 in exact pieces.

    python scripts/sincos_constants.py

sin r = r + r^3 P(r^2) and cos r = 1 - r^2/2 + r^4 Q(r^2) on |r| <= pi/4; the error that Remez equalizes is relative.
"""

import mpmath as mp

mp.mp.dps = 60


def remez(function, weight, degree, upper):
    """Polynomial p of that degree minimizing max |weight(z) (p(z) - function(z))| over (0, upper]."""
    count = degree + 2
    nodes = [upper * (1 - mp.cos(mp.pi * (2 * i + 1) / (2 * count))) / 2 for i in range(count)]
    grid = [upper * (1 - mp.cos(mp.pi * (i + mp.mpf(1) / 2) / 2000)) / 2 for i in range(2000)]
    exact = [(function(z), weight(z)) for z in grid]
    for _ in range(12):
        system = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for i, z in enumerate(nodes):
            for j in range(degree + 1):
                system[i, j] = z**j
            system[i, degree + 1] = (-1) ** i / weight(z)
            right[i] = function(z)
        coefficients = mp.lu_solve(system, right)[: degree + 1]
        descending = list(coefficients)[::-1]
        error = [w * (mp.polyval(descending, z) - f) for z, (f, w) in zip(grid, exact, strict=True)]
        extrema, start = [], 0
        for i in range(1, len(grid) + 1):
            if i == len(grid) or error[i] * error[start] < 0:
                extrema.append(grid[max(range(start, i), key=lambda k: abs(error[k]))])
                start = i
        if extrema == nodes:  # the next exchange would repeat this one
            break
        if len(extrema) == count:
            nodes = extrema
    return list(coefficients), max(abs(e) for e in error)


def pieces(bits):
    """Split pi/2 into positive floats that carry `bits` significant bits each."""
    rest, out = mp.pi / 2, []
    for b in bits:
        scale = mp.mpf(2) ** (b - 1 - mp.floor(mp.log(rest, 2)))
        piece = mp.floor(rest * scale) / scale
        out.append(float(piece))
        rest -= piece
    return out


def polynomials(sin_degree, cos_degree):
    """(P, its largest error) and (Q, its largest error)."""
    upper = (mp.pi / 4) ** 2
    root = mp.sqrt
    sine = remez(
        lambda z: (mp.sin(root(z)) / root(z) - 1) / z, lambda z: z * root(z) / mp.sin(root(z)), sin_degree, upper
    )
    cosine = remez(lambda z: (mp.cos(root(z)) - 1 + z / 2) / z**2, lambda z: z**2 / mp.cos(root(z)), cos_degree, upper)
    return sine, cosine


if __name__ == "__main__":
    for name, degree, bits in (("float64", 5, (36, 36, 53)), ("float32", 2, (13, 13, 13, 24))):
        for function, (coefficients, error) in zip(("sin", "cos"), polynomials(degree, degree), strict=True):
            print(f"{name}: {function}, error {mp.nstr(error, 3)}:", [float(c).hex() for c in coefficients])
        print(f"{name}: pi/2:", [p.hex() for p in pieces(bits)])
