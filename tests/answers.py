"""Solutions that nobody solved for: random series on a domain, in no time."""

import numpy as np

import flm
from flm.results import Ending, Word


def answer(domain, unknowns=("u",), **changed):
    """A solution on a domain, a random series of three sub-networks."""
    model = flm.FLM(domain, 3, key=0, num_outputs=len(unknowns))
    model = model.with_coefficients(np.random.default_rng(0).normal(size=model.coefficients.shape))
    fields = {"model": model, "axes": domain.axes, "unknowns": unknowns, "bounds": domain.bounds, "domain": domain}
    fields |= {"ending": Ending(Word.CONVERGED), "error_estimate": 1e-9, "tolerance": 1e-8}
    return flm.Solution(**(fields | changed))
