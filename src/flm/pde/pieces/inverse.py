"""Parameters from readings: Levenberg-Marquardt on the parameters alone, with the answer following from them.

For any parameters the equation and the conditions determine the answer (`readings`), so that only the parameters are left to
the readings: the sum of squares of (observed - measured) / sigma, plus a prior term for unknown functions, is
minimized on fixed pieces. Pieces are then found anew for the parameters found, until these no longer move. Pieces are fine
enough for `tol` and for the noise: the error of the answer must not shift a parameter by its standard error.

Near the parameters found the readings are linear in them, b = J x + e, with x the deviation from the start, e of unit variance
and J = Q R. Numbers have no prior; functions have covariance W Wᵀ. With y = Jᵀ b and M = Wᵀ JᵀJ W + (1 where there is a prior),

    covariance of x  V = W M⁻¹ Wᵀ,   mean  V y,   2 log p(b) = yᵀ V y - log det M + what no prior changes.

Averaged over priors about as probable as the best, this is the right band for functions as rough as the prior's. Most are
smoother, and the band is then too wide. So readings are drawn again from the function found, each draw chooses its prior, and the
band is scaled until it holds the function found in 95 % of the draws at nine tenths of the places (Hall and Horowitz, Annals of
Statistics 41 (2013) 1892).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from flm.numerics.least_squares import triangular_factor
from flm.numerics.newton import Nielsen, minimize
from flm.pde.pieces.adapt import Pieces
from flm.pde.pieces.fields import LENGTHS, STRENGTHS, FieldFunctions, Parameters, Prior
from flm.pde.pieces.readings import Chain, Misfit, Readings, Weights
from flm.pde.pieces.setup import Setup
from flm.pde.problem import PDE
from flm.results import Ending, LearnedFunction, Parameter, Record, Word

ROUNDS = 6  # of finding pieces anew
REWEIGHTS = 12  # of finding the noise and the strength of priors anew on the same pieces
STEPS = 40
FIRST = 1e-3  # tolerance of the first pieces, where the parameters are not known yet
FINER = 1e-2  # the pieces may be asked for this share of the tolerance where the noise is that small
SHIFT = 0.05  # standard errors that a parameter may move by when pieces or weights are found anew
DEPENDENT = 1e-7  # of unit columns: below this, the readings do not distinguish the parameters
ROUNDING = 1e-12  # no pieces are asked for more than this because of small noise
HOPELESS = (Word.NOT_FINITE, Word.UNDETERMINED, Word.INCONSISTENT)  # endings without pieces on which to find parameters
WORSE = 1.5  # root mean square misfit, in standard deviations that were given, that is worth a note
LEAST = 1e-3  # of the largest weight: less probable priors are ignored
DRAWS = 200  # of the readings
INSIDE, DEVIATIONS = 0.95, 1.96  # the share of draws that this many standard errors must hold
PLACES = 0.9  # the share of places at which they must: most, since the function found is smoother than the true one
SEEN = 0.5  # of the prior variance: where more is left, readings say too little for draws of them to judge the band

Forward = Callable[[Setup, float], Pieces]


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


def _probabilities(evidence: np.ndarray) -> np.ndarray:
    weights = np.exp((evidence - evidence.max(axis=0)) / 2)
    weights = np.where(weights > LEAST, weights, 0.0)
    return weights / weights.sum(axis=0)  # of the priors, the first axis


class Linear:
    """The problem linearized at a point, b = J x + e: slopes J (P, Q), numbers first, and target b (P,)."""

    def __init__(self, slopes: np.ndarray, target: np.ndarray, fields: tuple[FieldFunctions, ...]):
        self.R, self.y = triangular_factor(slopes), slopes.T @ target[:, None]  # y = Jᵀ b, (Q, 1)
        self.fields = fields  # in the order of their columns
        self.numbers = slopes.shape[1] - sum(f.even.shape[1] for f in fields)  # columns without a prior

    @classmethod
    def of(cls, misfit: Misfit, sigma: np.ndarray) -> Linear:
        """The linearized problem of a misfit, with given standard deviations."""
        J = misfit.plain * (misfit.weights.sigma / sigma)[:, None]
        return cls(J, J @ misfit.away - misfit.point.misfit / sigma, misfit.chain.setup.known.fields)

    def _factored(self, priors: tuple[Prior, ...]) -> tuple[np.ndarray, np.ndarray]:
        """W of the priors, and the Cholesky factor of M."""
        blocks = [f.halves(*prior) for f, prior in zip(self.fields, priors, strict=True)]
        row = column = self.numbers
        W = np.zeros((self.R.shape[1], row + sum(block.shape[1] for block in blocks)))
        W[:row, :row] = np.eye(row)
        for block in blocks:  # SciPy's block_diag took longer than the factorization
            W[row : (row := row + len(block)), column : (column := column + block.shape[1])] = block
        A = self.R @ W
        M = A.T @ A + np.diag((np.arange(W.shape[1]) >= self.numbers).astype(float))
        M[np.diag_indices_from(M)] *= 1 + 1e-13  # numbers that depend on each other; `_unseen` reports them
        M[M.diagonal() == 0, M.diagonal() == 0] = 1.0  # numbers without effect, likewise
        return W, np.linalg.cholesky(M)

    def posterior(self, priors: tuple[Prior, ...]) -> Posterior:
        """The posterior under priors of these lengths and strengths."""
        W, L = self._factored(priors)
        return Posterior(solve_triangular(L, W.T, lower=True), 2 * float(np.sum(np.log(L.diagonal()))))

    def evidence(self, priors: tuple[Prior, ...]) -> float:
        """`Posterior.evidence` of the own readings, without the posterior's matrices."""
        W, L = self._factored(priors)
        return float(np.sum(solve_triangular(L, W.T @ self.y, lower=True) ** 2) - 2 * np.sum(np.log(L.diagonal())))

    def trials(self, priors: tuple[Prior, ...], index: int) -> list[tuple[Prior, ...]]:
        """The priors with that of one function replaced by each candidate."""
        return [(*priors[:index], prior, *priors[index + 1 :]) for prior in product(LENGTHS, STRENGTHS)]

    def strongest(self, priors: tuple[Prior, ...]) -> tuple[Prior, ...]:
        """The priors under which the readings are most probable, function by function."""
        for index in range(len(self.fields)):
            priors = max(self.trials(priors, index), key=self.evidence)
        return priors

    def covariance(self, priors: tuple[Prior, ...], here: np.ndarray) -> np.ndarray:
        """The covariance about x = `here`, (Q, Q): averaged over the priors of each function, scaled to cover what it claims."""
        total, scale, last = np.zeros((len(here),) * 2), np.ones(len(here)), self.numbers
        for index, own in enumerate(self.fields):
            columns = slice(last, last := last + own.even.shape[1])
            posteriors = [self.posterior(trial) for trial in self.trials(priors, index)]
            weights = _probabilities(np.array([p.evidence(self.y)[0] for p in posteriors]))
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
        weights = _probabilities(evidence)  # (K, D)
        counts = np.flatnonzero(np.any(weights > 0, axis=1))
        values = np.array([table @ posteriors[k].mean(y) for k in counts])  # (K, P, D)
        variances = np.array([np.sum((table @ posteriors[k].half.T) ** 2, axis=1) for k in counts])
        best = values[np.searchsorted(counts, evidence.argmax(axis=0)), :, np.arange(DRAWS)].T
        variance = np.einsum("kd,kp->pd", weights[counts], variances)
        variance += np.einsum("kd,kpd->pd", weights[counts], (values - best) ** 2)
        needed = np.quantile(np.abs(best - (table @ here)[:, None]) / np.sqrt(variance), INSIDE, axis=1) / DEVIATIONS
        return float(np.quantile(needed, PLACES))


class ParameterSearch:
    """The search for parameters; `forward` finds pieces and the answer for a setup with given parameters and a tolerance."""

    def __init__(self, problem: PDE, setup: Setup, tol: float, forward: Forward, record: Record):
        self.problem, self.setup, self.tol, self.forward, self.record = problem, setup, tol, forward, record
        self.readings = Readings.of(problem, setup)
        self.known: Parameters = setup.known
        self.num_learned = len(self.known.learned)
        self.is_given = all(kind.sigma is not None for kind in self.readings)
        self.settled = True

    # --- what readings and priors count ----------------------------------------------------------------------------

    def _first_weights(self) -> Weights:
        guess = lambda values: np.full(len(values), 0.1 * float(np.std(values)) or 1.0)
        sigma = [guess(kind.values) if kind.sigma is None else kind.sigma for kind in self.readings]
        return self._weights(np.concatenate(sigma), ((0.5, 1.0),) * len(self.known.fields))

    def _weights(self, sigma: np.ndarray, strengths: tuple[Prior, ...]) -> Weights:
        """Weights for priors of these lengths and strengths."""
        blocks = [f.whitening(*prior) for f, prior in zip(self.known.fields, strengths, strict=True)]
        numbers = self.num_learned - sum(map(len, blocks))
        prior = (np.arange(self.num_learned) >= numbers).astype(float)
        return Weights(sigma, np.asarray(block_diag(np.eye(numbers), *blocks)), prior, strengths)

    def _reweighted(self, misfit: Misfit) -> Weights:
        """The noise, where it was not given, from the misfit of the readings, and the priors of largest evidence."""
        weights = misfit.weights
        sigma, used = weights.sigma.copy(), float(self.num_learned - np.sum(self._whitened(misfit)))
        first, freedom = 0, max(len(sigma) - used, 1.0) / len(sigma)
        for kind in self.readings:
            rows = slice(first, first + len(kind.values))
            first = rows.stop
            if kind.sigma is None:
                least = 1e-13 * float(np.abs(kind.values).max()) or 1.0
                sigma[rows] = max(float(np.sqrt(np.mean(misfit.point.misfit[rows] ** 2) / freedom)), least)
        strengths = Linear.of(misfit, sigma).strongest(weights.strengths) if self.known.fields else ()
        return self._weights(sigma, strengths)

    def _whitened(self, misfit: Misfit) -> np.ndarray:
        """Posterior variances of the z relative to their priors: 1 where readings say nothing, near 0 where they decide."""
        return np.where(misfit.weights.prior > 0, np.sum(misfit.inverse**2, axis=1), 0.0)

    # --- one set of pieces -----------------------------------------------------------------------------------------

    def _fit(self, found: Pieces, last: Misfit | None) -> Misfit:
        """The best parameters on fixed pieces."""
        chain = Chain(self.setup, found.answers, self.readings)
        weights = self._first_weights() if last is None else last.weights
        parameters = self.known.start if last is None else last.point.parameters
        point = chain.at(parameters, [answer.coefficients for answer in found.answers])
        misfit = Misfit(chain, weights, point)
        again = bool(self.known.fields) or not self.is_given  # whether noise or priors are to be found too
        for _ in range((REWEIGHTS if again else 1) * bool(self.num_learned)):
            start, model = misfit.learned, partial(Misfit, chain, weights)
            least = minimize(misfit.point, model, Nielsen(start=1e-3), max_steps=STEPS, gain_tol=1e-10, step_tol=1e-12)
            misfit = Misfit(chain, weights, least.point)
            self.settled = least.converged or self._is_still(misfit)
            self.record.step(
                "parameters", columns=sum(a.num_columns for a in least.point.answers), estimate=misfit.scatter,
                parameters=tuple(map(float, misfit.learned[:8])),
            )  # fmt: skip
            if not again:
                break
            weights = self._reweighted(misfit)
            stays = np.abs(weights.sigma / misfit.weights.sigma - 1).max() < 0.01
            same, moved = weights.strengths == misfit.weights.strengths, np.abs(misfit.learned - start)
            misfit = Misfit(chain, weights, misfit.point)
            if stays and (same or np.all(moved <= 0.1 * SHIFT * self._errors(misfit))):
                break
        return misfit

    def _is_still(self, misfit: Misfit) -> bool:
        """Whether a further step would be small against the standard errors, or against the parameters."""
        step = misfit.step(np.array(0.0))
        move = misfit.weights.whitening @ step.move
        return bool(float(step.predicted) <= SHIFT**2 or np.all(np.abs(move) <= 1e-6 * np.abs(misfit.learned)))

    def _errors(self, misfit: Misfit) -> np.ndarray:
        return np.sqrt(np.maximum(np.diagonal(misfit.covariance()), 0.0))

    # --- the whole search ------------------------------------------------------------------------------------------

    def run(self) -> Pieces:
        """Find pieces for the parameters and parameters on the pieces in turn, until neither changes."""
        tol = max(FIRST, self.tol) if self.num_learned else self.tol
        found, misfit = self.forward(self.setup, tol), None
        try:
            for _ in range(ROUNDS):
                if not found.answers[0].finite or found.ending.word in HOPELESS or found.until is not None:
                    break
                last, misfit = misfit, self._fit(found, misfit)
                finest = max(FINER * self.tol, min(self.tol, max(self._needed(misfit), ROUNDING)))
                stays = tol <= self.tol and self._stays(last, misfit, found, finest)
                if stays or found.ending.word is Word.INTERRUPTED:
                    break
                tol = finest
                found = self.forward(replace(self.setup, parameters=misfit.point.parameters), tol)
        except np.linalg.LinAlgError:
            found = replace(found, bar=np.inf)
        except KeyboardInterrupt:
            found = replace(found, bar=np.inf, ending=Ending(Word.INTERRUPTED))
        if misfit is None:
            nothing = np.full((self.num_learned,) * 2, np.inf)
            return replace(found, bar=np.inf, parameters=self._named(self.known.start, nothing))
        return self._conclude(found, misfit)

    def _needed(self, misfit: Misfit) -> float:
        """A relative error of the answer that shifts no parameter by much of its standard error: a tenth of the mean noise."""
        sigma = float(np.sqrt(np.mean(misfit.weights.sigma**2)))
        size = float(np.sqrt(np.mean(np.concatenate([kind.values for kind in self.readings]) ** 2))) or 1.0
        return 0.1 * sigma / size / np.sqrt(len(misfit.weights.sigma))

    def _stays(self, last: Misfit | None, misfit: Misfit, found: Pieces, finest: float) -> bool:
        """Whether the parameters stayed the same on new pieces."""
        if self.num_learned and (last is None or (found.bar > finest and found.ending.word is Word.CONVERGED)):
            return False
        if last is None:
            return True
        near = np.maximum(SHIFT * self._errors(misfit), 1e-9 * np.abs(misfit.learned))
        return bool(np.all(np.abs(misfit.learned - last.learned) <= near))

    def _conclude(self, found: Pieces, misfit: Misfit) -> Pieces:
        ending, bar, covariance, scatter = found.ending, found.bar, np.zeros((0, 0)), misfit.scatter
        unseen = self._unseen(misfit) if self.num_learned else ""
        if self.known.fields:
            linear = Linear.of(misfit, misfit.weights.sigma)
            covariance = linear.covariance(misfit.weights.strengths, misfit.away) + self._coarse(misfit)
        elif self.num_learned:
            covariance = misfit.covariance() + self._coarse(misfit)
        if unseen:
            ending, bar = Ending(Word.UNDETERMINED, f"undetermined: the readings do not determine {unseen}"), np.inf
        elif not self.settled:
            ending, bar = Ending(Word.STALLED, "stalled: no better parameters are found near these"), np.inf
        elif self.is_given and len(misfit.point.misfit) > 3 and scatter > WORSE and bar < np.inf:
            note = f"the readings scatter about the solution by {scatter:.2g} times their standard deviation"
            ending = replace(ending, note="; ".join(filter(None, (ending.note, note))))
        if bar == np.inf:
            covariance = np.full_like(covariance, np.inf)
        named = self._named(misfit.point.parameters, covariance)
        return Pieces(misfit.point.answers, bar, ending, parameters=named)  # of all the time

    def _coarse(self, misfit: Misfit) -> np.ndarray:
        """The covariance of the shift of the parameters that fewer functions would cause."""
        point = misfit.point
        chain = Chain(self.setup, point.answers, self.readings, fewer=2)
        starts = [
            system.functions.fitted(answer.coefficients, answer.functions)
            for system, answer in zip(chain.systems, point.answers, strict=True)
        ]
        try:
            gap = (chain.at(point.parameters, starts).misfit - point.misfit) / misfit.weights.sigma
        except np.linalg.LinAlgError:
            return np.zeros((self.num_learned,) * 2)
        full = np.concatenate([gap, np.zeros(len(misfit.z))])
        shift = misfit.weights.whitening @ (misfit.inverse @ full)
        return np.outer(shift, shift)

    def _unseen(self, misfit: Misfit) -> str:
        """The names of parameters that the readings do not determine; empty where they determine all."""
        J, learned = misfit.slopes, np.array(self.known.learned)
        left = self._whitened(misfit)
        names = [
            f.name
            for f in self.known.fields
            if np.sum(1 - left[(learned >= f.columns.start) & (learned < f.columns.stop)]) < 0.5
        ]
        numbers = learned < self.known.num_numbers
        every = list(self.problem.parameters)
        size = np.sqrt(np.sum(J**2, axis=0))
        own = np.maximum(np.abs(misfit.learned), np.abs(self.known.start[learned]))
        names += [every[q] for q in learned[numbers & (size * np.where(own > 0, own, 1.0) < DEPENDENT)]]
        _, values, vectors = np.linalg.svd(J / np.where(size > 0, size, 1.0), full_matrices=False)
        if not names and (values[-1] < DEPENDENT * values[0] or len(values) < len(learned)):
            weak = np.abs(vectors[-1]) > 0.1
            names += [every[q] for q, w, number in zip(learned, weak, numbers, strict=True) if w and number]
        return ", ".join(names)

    def _named(self, parameters: np.ndarray, covariance: np.ndarray) -> dict[str, Parameter | LearnedFunction]:
        learned, names = np.array(self.known.learned, int), list(self.problem.parameters)
        numbers = learned[learned < self.known.num_numbers]
        first = len(numbers)
        values = {names[q]: float(parameters[q]) for q in numbers}
        found: dict[str, Parameter | LearnedFunction] = {**Parameter.several(values, covariance[:first, :first])}
        for own in self.known.fields:
            rows = slice(first, first := first + own.columns.stop - own.columns.start)
            axes, coefficients = tuple(self.problem.axes[a] for a in own.axes), parameters[own.columns]
            shaped = coefficients.reshape(own.shape)
            found[own.name] = LearnedFunction(axes, own.bounds, shaped, covariance[rows, rows])
        return {name: found[name] for name in names if name in found}
