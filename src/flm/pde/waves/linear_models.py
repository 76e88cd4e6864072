"""Networks that are linear in their output weights, solved on a problem by least squares instead of trained.

The Fourier extreme learning machine (MYL22) does this with random hidden layers, whose scale and size are chosen automatically.
"""

from __future__ import annotations

import numpy as np

from flm.models.base import AbstractLinearModel
from flm.models.classic import FourierNetwork
from flm.pde.problem import PDE, HasStrongForm, strong_form
from flm.pde.waves.fit import Basis, Fit, Fitter
from flm.results import Ending, Record, Solution, Word
from flm.wording import InputError, InputTypeError

# The ladder of the automatic choice. Scales in radians per half width: one to sixteen half-waves across the domain.
SCALES = tuple(np.pi / 2 * 2.0 ** np.arange(5))
SIZES = (50, 100, 200, 400, 800)


def model_columns(model: AbstractLinearModel) -> Basis:
    """The columns of a linear model, one per amplitude."""
    columns = lambda points, alphas: np.swapaxes(np.asarray(model.basis(points, tuple(alphas))), 1, 2) if alphas else ()
    flat = lambda coefficients: coefficients if model.num_outputs > 1 else coefficients[:, 0]
    return Basis(len(model.coefficients), columns, lambda coefficients: model.with_coefficients(flat(coefficients)))


def solve_linear_model(problem: PDE | HasStrongForm, model: AbstractLinearModel, *, seed: int = 0) -> Solution:
    """A model's output weights found by least squares on a problem: Gauss-Newton when the problem is nonlinear.

    The error estimate is the largest relative residual at held-out points. The solution is never called converged: nothing was
    grown to compare it with.
    """
    if not isinstance(model, AbstractLinearModel):
        raise InputTypeError(f"`model` must be linear in its amplitudes; got {type(model).__name__}. Use flm.train.")
    strong = strong_form(problem)
    if (model.num_inputs, model.num_outputs) != (len(strong.axes), len(strong.unknowns)):
        raise InputError(
            f"`model` must have {len(strong.axes)} inputs and {len(strong.unknowns)} outputs for this problem; got "
            f"{model.num_inputs} and {model.num_outputs}."
        )
    record = Record()
    fit = Fitter(strong, seed=seed).fit(model_columns(model))
    ending = Ending(Word.SOLVED, f"least squares in {fit.basis.num_columns} columns")
    return fit.solution(strong, fit.estimate, ending, record, np.nan)


def solve_extreme(
    problem: PDE | HasStrongForm, tol: float = 1e-8, *, seed: int = 0, max_neurons: int = SIZES[-1]
) -> Solution:
    """The Fourier extreme learning machine with scale and number of neurons chosen by held-out residuals (MYL22).

    Sizes grow until the estimate is at most `tol`; at each size every scale is tried with the same random numbers. The
    estimate is the larger of the best held-out residual and the difference between the two best scales.
    """
    if not tol > 0:
        raise InputError(f"`tol` must be a positive number; got {tol!r}.")
    strong = strong_form(problem)
    fitter, record = Fitter(strong, seed=seed), Record()
    best, bar = None, np.inf
    for size in [n for n in SIZES if n <= max_neurons] or [max_neurons]:
        fits: list[Fit] = []
        for scale in SCALES:
            model = FourierNetwork.myl22(strong.domain, size, key=seed, scale=scale, num_outputs=len(strong.unknowns))
            fits.append(fitter.fit(model_columns(model)))
            columns = fits[-1].basis.num_columns
            record.step("extreme", columns=columns, estimate=fits[-1].estimate, neurons=size, scale=float(scale))
        first, second = sorted(fits, key=lambda fit: fit.estimate)[:2]
        at = max(first.estimate, first.difference(second))
        if at < bar:
            best, bar = first, at
        if bar <= tol:
            break
    best = best or fits[0]
    ending = Ending(Word.SIZE, f"the largest hidden layer has {best.basis.num_columns} neurons")
    return best.solution(strong, bar, ending, record, tol)
