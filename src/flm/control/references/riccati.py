"""The linear-quadratic regulator's exact answer by Riccati's equation."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.integrate import OdeSolution, solve_ivp

from flm.wording import UnsolvedError


@dataclass(frozen=True, eq=False)
class RiccatiSolution:
    """The optimal cost x'P(0)x / 2 and the feedback u = -R⁻¹B'P(t) x.

    Attributes:
        cost: Of the given initial states, (P,).
        initial: P(0), (n, n).

    Example:
        >>> answer = riccati(A=-1.0, B=1.0, Q=1.0, R=1.0, S=None, horizon=1.0, x0=[1.0])
        >>> answer.gain(0.0).round(6)  # u = -K x
        array([[0.385819]])
    """

    cost: np.ndarray
    initial: np.ndarray
    _gain: np.ndarray
    _dense: OdeSolution

    def gain(self, t: float) -> np.ndarray:
        """K(t) in u = -K(t) x, (k, n)."""
        n = len(self.initial)
        return self._gain @ self._dense(t).reshape(n, n)


def riccati(
    A: npt.ArrayLike,
    B: npt.ArrayLike,
    Q: npt.ArrayLike,
    R: npt.ArrayLike,
    S: npt.ArrayLike | None,
    horizon: float,
    x0: npt.ArrayLike,
) -> RiccatiSolution:
    """The optimal cost of x' = A x + B u with cost ∫ (x'Qx + u'Ru)/2 dt + x(T)'S x(T)/2.

    P solves -P' = A'P + PA - P B R⁻¹ B' P + Q, P(T) = S, integrated backwards by DOP853 with tolerance 1e-13.

    Args:
        A: (n, n).
        B: (n, k).
        Q: (n, n), symmetric.
        R: (k, k), symmetric positive definite.
        S: (n, n), symmetric, or None for zero.
        horizon: T.
        x0: One initial state (n,) or several (P, n).

    Example:
        >>> answer = riccati(A=-1.0, B=1.0, Q=1.0, R=1.0, S=None, horizon=1.0, x0=[1.0])
        >>> answer.cost.round(6)
        array([0.192909])
    """
    A, B, Q, R = (np.atleast_2d(np.asarray(matrix, float)) for matrix in (A, B, Q, R))
    n = len(A)
    end = np.zeros((n, n)) if S is None else np.atleast_2d(np.asarray(S, float))
    gain = np.linalg.solve(R, B.T)

    def backwards(t, flat):
        P = flat.reshape(n, n)
        return -(A.T @ P + P @ A - P @ B @ gain @ P + Q).ravel()

    found = solve_ivp(
        backwards, (float(horizon), 0.0), end.ravel(), method="DOP853", rtol=1e-13, atol=1e-14, dense_output=True
    )
    if not found.success:
        raise UnsolvedError(f"Riccati's equation was not solved: {found.message}")
    P = found.y[:, -1].reshape(n, n)
    x0 = np.atleast_2d(np.asarray(x0, float))
    return RiccatiSolution(0.5 * np.einsum("pi,ij,pj->p", x0, P, x0), P, gain, found.sol)
