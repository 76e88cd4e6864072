"""Regenerate the constants of flm/series/sincos.py: minimax polynomials by Remez exchange, and pi/2 in exact pieces.

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
    for _ in range(12):
        system = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for i, z in enumerate(nodes):
            for j in range(degree + 1):
                system[i, j] = z**j
            system[i, degree + 1] = (-1) ** i / weight(z)
            right[i] = function(z)
        coefficients = mp.lu_solve(system, right)[: degree + 1]
        error = [weight(z) * (mp.polyval(list(coefficients)[::-1], z) - function(z)) for z in grid]
        extrema, start = [], 0
        for i in range(1, len(grid) + 1):
            if i == len(grid) or error[i] * error[start] < 0:
                extrema.append(grid[max(range(start, i), key=lambda k: abs(error[k]))])
                start = i
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


def report(name, sin_degree, cos_degree):
    upper = (mp.pi / 4) ** 2
    P, sin_error = remez(
        lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        lambda z: z * mp.sqrt(z) / mp.sin(mp.sqrt(z)),
        sin_degree,
        upper,
    )
    Q, cos_error = remez(
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2 / mp.cos(mp.sqrt(z)), cos_degree, upper
    )
    print(f"{name}: sin {mp.nstr(sin_error, 3)}", [float(c).hex() for c in P])
    print(f"{name}: cos {mp.nstr(cos_error, 3)}", [float(c).hex() for c in Q])


if __name__ == "__main__":
    report("float64", 5, 5)
    report("float32", 2, 2)
    print("pi/2 float64:", [p.hex() for p in pieces([36, 36, 53])])
    print("pi/2 float32:", [p.hex() for p in pieces([13, 13, 13, 24])])
