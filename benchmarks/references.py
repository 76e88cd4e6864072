"""Independent references for problems without an exact solution: nothing here uses the library's solvers.

Each is of forty lines or fewer and is run at two resolutions by whoever uses it, so that its own error is known.
"""

import numpy as np
from scipy import sparse
from scipy.fft import dst, fftn, idst, ifftn
from scipy.sparse.linalg import spsolve
from scipy.special import kv

PI = np.pi


def phi_weights(z, steps=32):
    """Kassam and Trefethen's four coefficients of ETDRK4 at z = h L, by means over a circle."""
    total = [0.0] * 4
    for root in np.exp(1j * PI * (np.arange(1, steps + 1) - 0.5) / (steps / 2)):
        w, e = z + root, np.exp(z + root)
        parts = (
            (np.exp(w / 2) - 1) / w,
            (-4 - w + e * (4 - 3 * w + w**2)) / w**3,
            (2 + w + e * (w - 2)) / w**3,
            (-4 - 3 * w - w**2 + e * (4 - w)) / w**3,
        )
        total = [t + p / steps for t, p in zip(total, parts, strict=True)]
    return total


def etdrk4(symbol, nonlinear, start, end, steps, keep=10):
    """States at keep + 1 even times of v' = symbol v + nonlinear(v, t) for coefficients v, by Cox and Matthews' scheme."""
    h, v = end / steps, start
    full, half = np.exp(h * symbol), np.exp(h * symbol / 2)
    q, f1, f2, f3 = (h * w for w in phi_weights(h * symbol.astype(complex)))
    kept = [v]
    for step in range(steps):
        t = step * h
        nv = nonlinear(v, t)
        a = half * v + q * nv
        na = nonlinear(a, t + h / 2)
        b = half * v + q * na
        nb = nonlinear(b, t + h / 2)
        c = half * a + q * (2 * nb - nv)
        v = full * v + f1 * nv + 2 * f2 * (na + nb) + f3 * nonlinear(c, t + h)
        if (step + 1) % (steps // keep) == 0:
            kept.append(v)
    return kept


class Ring:
    """A periodic box: wave numbers, transforms over the last axes, and the two-thirds rule."""

    def __init__(self, lengths, n):
        self.n, self.m = n, len(lengths)
        self.axes = tuple(range(-self.m, 0))
        self.grid = np.meshgrid(*(length * np.arange(n) / n for length in lengths), indexing="ij")
        self.k = np.meshgrid(*(2 * PI / length * np.fft.fftfreq(n, 1 / n) for length in lengths), indexing="ij")
        ints = np.meshgrid(*self.m * [np.abs(np.fft.fftfreq(n, 1 / n))], indexing="ij")
        self.low = np.all([i < n / 3 for i in ints], axis=0)

    def values(self, v):
        """Coefficients to values; real parts where the start was real."""
        return ifftn(v, axes=self.axes)

    def coefficients(self, u):
        """Values to coefficients."""
        return fftn(u, axes=self.axes)

    def march(self, symbol, source, start, end, steps, keep=10):
        """Values at keep + 1 times of u_t = symbol u + source(values, derivative), from values `start`."""
        slope = lambda v, axis: self.values(1j * self.k[axis] * v)
        nonlinear = lambda v, t: self.low * self.coefficients(source(self.values(v), lambda axis: slope(v, axis)))
        kept = etdrk4(symbol, nonlinear, self.coefficients(start), end, steps, keep)
        return np.array([self.values(v) for v in kept])


def heat_long_time(n, end, steps, keep=10):
    """Values on the inner points (i + 1) / n of the unit square, at keep + 1 times, of PINNacle's Heat 2d-LT by sines."""
    x, y = np.meshgrid(*2 * [np.arange(1, n) / n], indexing="ij")
    k, l = np.meshgrid(*2 * [PI * np.arange(1, n)], indexing="ij")
    to = lambda u: dst(dst(u, 1, axis=0), 1, axis=1) / n**2
    back = lambda v: idst(idst(v, 1, axis=0), 1, axis=1) * n**2
    low = (k < PI * 2 * n / 3) & (l < PI * 2 * n / 3)
    shape = 5 * np.sin(4 * PI * x) * np.sin(2 * PI * y)
    source = lambda v, t: low * to(shape * (1 + 2 * np.sin(PI * t / 4)) * np.sin(back(v.real) ** 2))
    kept = etdrk4(-1e-3 * (k**2 + l**2), source, to(np.sin(4 * PI * x) * np.sin(3 * PI * y)), end, steps, keep)
    return np.array([back(v.real) for v in kept])


def burgers(x, t, nu, nodes=16001):
    """Burgers' equation from -sin(pi x) by Cole and Hopf's transform, with the trapezoidal rule, which converges fast."""
    eta, out = np.linspace(-2.0, 2.0, nodes), np.empty(len(x))  # characteristics come from at most t away
    for i in range(0, len(x), 500):
        at, now = x[i : i + 500, None], t[i : i + 500, None]
        power = -np.cos(PI * (at - eta)) / (2 * PI * nu) - eta**2 / (4 * nu * now)
        weight = np.exp(power - power.max(axis=1, keepdims=True))
        out[i : i + 500] = -np.sum(np.sin(PI * (at - eta)) * weight, axis=1) / weight.sum(axis=1)
    return out


def holes(n):
    """PINNacle's Poisson 2d-C by harmonic functions about each hole and about the origin, least squares on the boundary.

    Returns the solution as a function of x and y, and the largest error on the boundary, which bounds that inside.
    """
    centers = np.array([-0.3 - 0.3j, -0.3 + 0.3j, 0.3 - 0.3j, 0.3 + 0.3j])
    side = np.sin(PI / 2 * np.linspace(-1, 1, 16 * n)) / 2  # dense at the corners
    edges = np.concatenate([s * 0.5 + 1j * side for s in (1, -1)] + [side + 0.5j * s for s in (1, -1)])
    circles = (centers[:, None] + 0.1 * np.exp(2j * PI * np.arange(8 * n) / (8 * n))).ravel()

    def table(z):
        rows = [(z / 0.75) ** k for k in range(4 * n)]
        rows += [(0.1 / (z - c)) ** k for c in centers for k in range(1, n)]
        both = np.concatenate([np.real(rows), np.imag(rows)])
        return np.concatenate([both, [np.log(np.abs(z - c)) for c in centers]]).T

    points = np.concatenate([edges, circles])
    wanted = np.concatenate([np.ones(edges.size), np.zeros(circles.size)])
    coefficients = np.linalg.lstsq(table(points), wanted, rcond=1e-14)[0]
    worst = np.abs(table(points) @ coefficients - wanted).max()
    return lambda x, y: table(x + 1j * y) @ coefficients, worst


def boltzmann(modes, n):
    """PINNacle's Poisson 2d-CG: a sine series on the whole square, and Bessel's K about the holes and their images.

    u = 0.2 + v + w: v solves -Δv + 64 v = f - 12.8 on the whole square with zero sides; w solves the equation without a
    source, is zero on the sides by odd images, and makes up on the holes' rims what v lacks. Returns a function of x and y.
    """
    disks = ((0.5, 0.5, 0.2), (0.4, -0.4, 0.4), (-0.2, -0.7, 0.1), (-0.6, 0.5, 0.3))
    grid = -1 + 2 * np.arange(1, modes) / modes
    x, y = np.meshgrid(grid, grid, indexing="ij")
    load = 10 * (17 + x**2 + y**2) * np.sin(PI * x) * np.sin(4 * PI * y)
    k = PI / 2 * np.arange(1, modes)
    constant = np.where(np.arange(1, modes) % 2 == 1, 4 / (PI * np.arange(1, modes)), 0.0)
    source = dst(dst(load, 1, axis=0), 1, axis=1) / modes**2 - 12.8 * constant[:, None] * constant
    v = source / (k[:, None] ** 2 + k**2 + 64)
    smooth = lambda px, py: np.einsum("pi,pi->p", np.sin(np.outer(px + 1, k)) @ v, np.sin(np.outer(py + 1, k)))

    def table(px, py):
        columns = []
        for cx, cy, radius in disks:
            sums = np.zeros((2 * n - 1, len(px)))
            for i in range(-2, 3):
                for j in range(-2, 3):
                    ax, ay = 2 * i + (-1) ** i * cx, 2 * j + (-1) ** j * cy
                    z = (px - ax) * (-1) ** i + 1j * (py - ay) * (-1) ** j
                    r, angle, sign = np.abs(z), np.angle(z), (-1) ** (i + j)
                    for q in range(n):
                        size = sign * kv(q, 8 * r) / kv(q, 8 * radius)
                        sums[q] += size * np.cos(q * angle)
                        if q:
                            sums[n - 1 + q] += size * np.sin(q * angle)
            columns += list(sums)
        return np.array(columns).T

    angle = 2 * PI * np.arange(4 * n) / (4 * n)
    rim = np.concatenate([[cx + r * np.cos(angle), cy + r * np.sin(angle)] for cx, cy, r in disks], axis=1)
    coefficients = np.linalg.lstsq(table(*rim), 0.8 - smooth(*rim), rcond=1e-14)[0]
    return lambda px, py: 0.2 + smooth(px, py) + table(px, py) @ coefficients


def cavity(n, reynolds):
    """Velocities (u, v) of the lid-driven cavity at the inner points i / n, from the stream function by differences.

    Δ²ψ / Re = ψ_y Δψ_x - ψ_x Δψ_y, u = ψ_y, v = -ψ_x, all central, with one row of points beyond each side for the
    velocity along it; Newton, from flows at smaller Reynolds numbers. The error is of second order: (4 u(2n) - u(n)) / 3 is the
    reference.
    """
    h, eye = 1 / n, sparse.eye_array
    extend = sparse.vstack([eye(1, n - 1), sparse.csr_array((1, n - 1)), eye(n - 1), sparse.csr_array((1, n - 1))])
    extend = sparse.vstack([extend, eye(1, n - 1, k=n - 2)])  # points -1 ... n + 1: zero on sides, even beyond them
    inner = lambda width, size: eye(size - 2 * width, size, k=width)  # leaves the outermost points
    second = lambda size: sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(size - 2, size)) / h**2
    first = lambda size: sparse.diags_array([-1.0, 1.0], offsets=[0, 2], shape=(size - 2, size)) / (2 * h)
    kron, size = sparse.kron, n + 3
    laplace = lambda m: kron(second(m), inner(1, m)) + kron(inner(1, m), second(m))
    dx, dy = (lambda m: kron(first(m), inner(1, m))), (lambda m: kron(inner(1, m), first(m)))
    x = np.arange(-1, n + 2) * h
    lid = np.zeros((size, size))
    lid[1:-1, -1] = 2 * h * 4 * x[1:-1] * (1 - x[1:-1])
    grid, lid = kron(extend, extend).tocsr(), lid.ravel()
    shrink = kron(inner(1, n + 1), inner(1, n + 1))
    w_of, u_of, v_of = laplace(size), shrink @ dy(size), -shrink @ dx(size)
    wx, wy, lw = dx(n + 1) @ w_of, dy(n + 1) @ w_of, laplace(n + 1) @ w_of
    psi = np.zeros((n - 1) ** 2)
    scaled = lambda row, matrix: sparse.diags_array(row) @ matrix
    for number in [*(smaller for smaller in (100.0, 300.0, 600.0) if smaller < reynolds), reynolds]:
        for _ in range(15):
            full = grid @ psi + lid
            u, v = u_of @ full, v_of @ full
            residual = lw @ full / number - u * (wx @ full) - v * (wy @ full)
            change = lw / number - scaled(u, wx) - scaled(v, wy) - scaled(wx @ full, u_of) - scaled(wy @ full, v_of)
            step = spsolve((change @ grid).tocsc(), residual)
            psi = psi - step
            if np.abs(step).max() < (1e-9 if number == reynolds else 1e-3):
                break
        else:
            raise ArithmeticError(f"Newton's method does not settle at Re = {number:g} on {n} intervals")
    return u.reshape(n - 1, -1), v.reshape(n - 1, -1)
