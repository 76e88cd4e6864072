"""Parameters from readings: Levenberg-Marquardt on the parameters alone, with the answer following from them.

For any parameters the equation and the conditions determine the answer (`readings`), so that only the parameters are left to
the readings: the sum of squares of (observed - measured) / sigma, plus a prior term for unknown functions, is
minimized on fixed pieces. Pieces are then found anew for the parameters found, until these no longer move. Pieces are fine
enough for `tol` and for the noise: the error of the answer must not shift a parameter by its standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.linalg import block_diag

from flm.numerics.newton import Nielsen, minimize
from flm.pde.pieces.adapt import Pieces
from flm.pde.pieces.bands import Linear
from flm.pde.pieces.fields import Parameters, Prior
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

Forward = Callable[[Setup, float], Pieces]


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
        return self._weights(np.concatenate(sigma), tuple((0.5, 1.0) for _ in self.known.fields))

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
        names += [every[q] for q, s in zip(learned[numbers], size[numbers], strict=True) if s == 0]
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
