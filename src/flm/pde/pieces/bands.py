"""The band of an unknown function: its posterior under each prior, averaged, and scaled until it covers what it claims.

Near the parameters found the readings are linear in them, b = J x + e, with x the deviation from the start, e of unit variance
and J = Q R. Numbers have no prior; functions have covariance W Wᵀ. With y = Jᵀ b and M = Wᵀ JᵀJ W + (1 where there is a prior),

    covariance of x  V = W M⁻¹ Wᵀ,   mean  V y,   2 log p(b) = yᵀ V y - log det M + what no prior changes.

Averaged over priors about as probable as the best, this is the right band for functions as rough as the prior's. Most are
smoother, and the band is then too wide. So readings are drawn again from the function found, each draw chooses its prior, and the
band is scaled until it holds the function found in 95 % of the draws at nine tenths of the places (Hall and Horowitz, Annals of
Statistics 41 (2013) 1892).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from flm.pde.pieces.elimination import triangle
from flm.pde.pieces.fields import LENGTHS, STRENGTHS, FieldFunctions, Prior
from flm.pde.pieces.readings import Misfit

LEAST = 1e-3  # of the largest weight: less probable priors are ignored
DRAWS = 200  # of the readings
INSIDE, DEVIATIONS = 0.95, 1.96  # the share of draws that this many standard errors must hold
PLACES = 0.9  # the share of places at which they must: most, since the function found is smoother than the true one
SEEN = 0.5  # of the prior variance: where more is left, readings say too little for draws of them to judge the band


@dataclass(frozen=True, eq=False)
class Posterior:
    """The parameters under some priors, for any readings with the same slopes."""

    half: np.ndarray  # H with HᵀH the covariance of x, (·, Q)
    volume: float  # log det M

    def evidence(self, y: np.ndarray) -> np.ndarray:
        """2 log p(b), up to what no prior changes, for each column of y, (D,)."""
        return np.sum((self.half @ y) ** 2, axis=0) - self.volume

    def mean(self, y: np.ndarray) -> np.ndarray:
        """The mean of x, (Q, D)."""
        return self.half.T @ (self.half @ y)


def probabilities(evidence: np.ndarray) -> np.ndarray:
    """The probabilities of the priors, the first axis, from their evidence."""
    weights = np.exp((evidence - evidence.max(axis=0)) / 2)
    weights = np.where(weights > LEAST, weights, 0.0)
    return weights / weights.sum(axis=0)


@dataclass(frozen=True, eq=False)
class Linear:
    """The problem linearized at a point."""

    slopes: np.ndarray  # J, numbers first, (P, Q)
    target: np.ndarray  # b, (P,)
    fields: tuple[FieldFunctions, ...]  # the functions, in the order of their columns

    @classmethod
    def of(cls, misfit: Misfit, sigma: np.ndarray) -> Linear:
        """The linearized problem of a misfit, with given standard deviations."""
        J = misfit.plain * (misfit.weights.sigma / sigma)[:, None]
        return cls(J, J @ misfit.away - misfit.point.misfit / sigma, misfit.chain.setup.known.fields)

    @cached_property
    def R(self) -> np.ndarray:
        """The triangular factor of the slopes."""
        return triangle(self.slopes.copy())

    @cached_property
    def y(self) -> np.ndarray:
        """Jᵀ b, (Q, 1)."""
        return self.slopes.T @ self.target[:, None]

    @property
    def numbers(self) -> int:
        """The number of columns without a prior."""
        return self.slopes.shape[1] - sum(f.even.shape[1] for f in self.fields)

    def posterior(self, priors: tuple[Prior, ...]) -> Posterior:
        """The posterior under priors of these lengths and strengths."""
        blocks = [f.halves(*prior) for f, prior in zip(self.fields, priors, strict=True)]
        W = np.asarray(block_diag(np.eye(self.numbers), *blocks))
        A = self.R @ W
        M = A.T @ A + np.diag((np.arange(W.shape[1]) >= self.numbers).astype(float))
        M[np.diag_indices_from(M)] *= 1 + 1e-13  # numbers that depend on each other; `_unseen` reports them
        M[M.diagonal() == 0, M.diagonal() == 0] = 1.0  # numbers without effect, likewise
        L = np.linalg.cholesky(M)
        return Posterior(solve_triangular(L, W.T, lower=True), 2 * float(np.sum(np.log(L.diagonal()))))

    def trials(self, priors: tuple[Prior, ...], index: int) -> list[tuple[Prior, ...]]:
        """The priors with that of one function replaced by each candidate."""
        return [(*priors[:index], prior, *priors[index + 1 :]) for prior in product(LENGTHS, STRENGTHS)]

    def strongest(self, priors: tuple[Prior, ...]) -> tuple[Prior, ...]:
        """The priors under which the readings are most probable, function by function."""
        for index in range(len(self.fields)):
            priors = max(self.trials(priors, index), key=lambda trial: float(self.posterior(trial).evidence(self.y)[0]))
        return priors

    def covariance(self, priors: tuple[Prior, ...], here: np.ndarray) -> np.ndarray:
        """The covariance about x = `here`, (Q, Q): averaged over the priors of each function, scaled to cover what it claims."""
        total, scale, last = np.zeros((len(here),) * 2), np.ones(len(here)), self.numbers
        for index, own in enumerate(self.fields):
            columns = slice(last, last := last + own.even.shape[1])
            posteriors = [self.posterior(trial) for trial in self.trials(priors, index)]
            weights = probabilities(np.array([p.evidence(self.y)[0] for p in posteriors]))
            for p, weight in zip(posteriors, weights, strict=True):
                if weight > 0:
                    away = p.mean(self.y)[:, 0] - here
                    total += weight * (p.half.T @ p.half + np.outer(away, away)) / len(self.fields)
            table = np.zeros((len(own.even), len(here)))
            table[:, columns] = own.even
            left = np.sum((table @ self.posterior(priors).half.T) ** 2, axis=1)
            seen = left < SEEN * (priors[index][1] * own.size) ** 2
            if np.any(seen):
                scale[columns] = self._scale(posteriors, here, table[seen])
        return total * np.outer(scale, scale)

    def _scale(self, posteriors: list[Posterior], here: np.ndarray, table: np.ndarray) -> float:
        """The factor for standard errors of the values in a table, from readings drawn from x = `here`."""
        y = self.R.T @ ((self.R @ here)[:, None] + np.random.default_rng(0).normal(size=(len(self.R), DRAWS)))
        evidence = np.array([p.evidence(y) for p in posteriors])
        weights = probabilities(evidence)  # (K, D)
        counts = np.flatnonzero(np.any(weights > 0, axis=1))
        values = np.array([table @ posteriors[k].mean(y) for k in counts])  # (K, P, D)
        variances = np.array([np.sum((table @ posteriors[k].half.T) ** 2, axis=1) for k in counts])
        best = values[np.searchsorted(counts, evidence.argmax(axis=0)), :, np.arange(DRAWS)].T
        variance = np.einsum("kd,kp->pd", weights[counts], variances)
        variance += np.einsum("kd,kpd->pd", weights[counts], (values - best) ** 2)
        needed = np.quantile(np.abs(best - (table @ here)[:, None]) / np.sqrt(variance), INSIDE, axis=1) / DEVIATIONS
        return float(np.quantile(needed, PLACES))
