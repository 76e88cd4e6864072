"""Solving PDEs and ODEs: the choice of a method for a problem.

Pieces solve problems with up to three axes, time included, on boxes (with parameters to be learned, too) and on regions. Where
one piece is not enough and space is periodic or has sides that fit a sine or cosine series, evolution equations are marched
(`march`). Sums over the axes in more variables are sums of products (`products`). One sum over a sparse set of Legendre functions
(`sparse`) solves the rest: undamped waves on regions, up to eight variables, readings in place of conditions. Waves are used
whenever a number of sub-networks is asked for.
"""

from __future__ import annotations

from flm.domains import Product
from flm.models import AbstractLinearModel
from flm.pde.family import check_ranges, solve_family
from flm.pde.march.solve import solve_by_march, try_march
from flm.pde.pieces.setup import MAX_AXES, can_serve
from flm.pde.pieces.solve import solve_in_pieces
from flm.pde.problem import PDE
from flm.pde.products.solve import solve_by_products, try_products
from flm.pde.sparse import MAX_COLUMNS, solve_by_sparse_sets
from flm.pde.waves.distillation import solve_by_waves
from flm.pde.waves.linear_models import solve_linear_model
from flm.results import Listener, Solution, Word, silent
from flm.wording import InputError, did_you_mean

METHODS = ("pieces", "march", "products", "sparse", "waves")
MOST_AXES = 8  # of sparse sets, without the time of an evolution
UNSOLVED = {Word.STALLED, Word.SIZE, Word.STOPPED}  # endings of a march over a region after which one series is tried
SUCCESSORS = {"lattice": "sparse", "windows": "pieces", "enriched": "pieces"}  # methods of the first version


def solve_pde(
    problem: PDE,
    tol: float,
    *,
    num_subnets: int | None,
    method: str | AbstractLinearModel | None,
    max_columns: int | None,
    seed: int,
    progress: Listener,
) -> Solution:
    """Solve a PDE or ODE; the arguments are those of `flm.solve`, and a linear model as `method` is fitted by least squares."""
    if problem.has_ranges:
        check_ranges(problem)
        if num_subnets is not None or isinstance(method, AbstractLinearModel):
            raise InputError(
                "`parameters` with flm.Range must be solved to a tolerance, without `num_subnets` or a model."
            )
        solve_one = lambda one, share: solve_pde(
            one, share, num_subnets=None, method=method, max_columns=max_columns, seed=seed, progress=silent
        )
        return solve_family(problem, tol, solve_one, progress)
    if isinstance(method, AbstractLinearModel):
        if problem.has_fields:
            raise InputError(
                "`parameters` must not hold functions, flm.Learn(start, axes=...), where a model is the `method`."
            )
        if num_subnets is not None:
            raise InputError(f"`num_subnets` must be left out with a model as `method`; got {num_subnets}.")
        return solve_linear_model(problem, method, seed=seed)
    if method in SUCCESSORS:
        raise InputError(f"`method` must be {SUCCESSORS[method]!r}, which has replaced it; got {method!r}.")
    if method not in (None, *METHODS):
        known = ", ".join(map(repr, METHODS))
        raise InputError(
            f"`method` must be None or one of {known} for a PDE; got {method!r}.{did_you_mean(str(method), METHODS)}"
        )
    if method == "waves" and num_subnets is None:
        raise InputError("`num_subnets` must be given with `method` 'waves'; got None. To a tolerance, use 'sparse'.")
    if method == "march" and num_subnets is None:
        return solve_by_march(problem, tol, progress)
    if method == "products" and num_subnets is None:
        return solve_by_products(problem, tol, progress)
    serves = can_serve(problem, max_columns)
    if problem.has_fields and (num_subnets is not None or method in ("sparse", "waves") or not serves):
        raise InputError(
            "`parameters` must hold functions, flm.Learn(start, axes=...), only where pieces solve the problem: on a box of up "
            "to three axes, with all conditions that the equation needs. Leave out `method` and `num_subnets`."
        )
    if method == "pieces" and (num_subnets is not None or not serves):
        raise InputError(
            "`method` must not be 'pieces' for this problem. Pieces solve problems of up to three axes: on a box with all its "
            "conditions, and on a region without readings and undamped waves. Leave out `num_subnets`, and let `max_columns` "
            "have room for one piece."
        )
    if problem.jumping and (num_subnets is not None or method in ("sparse", "waves") or not serves):
        raise InputError(
            f"`parameters` must not jump where one series of waves is the method; got flm.Piecewise for "
            f"{next(iter(problem.jumping))!r}. Coefficients that jump need pieces: a box of up to three axes."
        )
    marched = lambda: try_march(problem, tol, progress) if method is None else None
    solution = None
    if num_subnets is None and method in (None, "pieces") and serves:
        solution = solve_in_pieces(problem, tol, max_columns=max_columns, progress=progress, between=marched)
        in_time = isinstance(problem.domain, Product) and solution.status.word in UNSOLVED
        if method == "pieces" or not in_time:
            return solution
        # The limit given was for pieces; one series has a limit of its own.
        max_columns = None if max_columns is None else min(max_columns, MAX_COLUMNS)
    elif num_subnets is None and method is None and len(problem.axes) > MAX_AXES:
        found = marched() or try_products(problem, tol, progress)
        if not isinstance(found, str):
            return found
        space = [axis for axis in problem.axes if axis != "t"]
        if len(space) > MOST_AXES:
            raise InputError(
                f"`problem` must be a sum over its axes with data that are sums of products where it has more than {MOST_AXES} "
                f"variables; got {len(space)}: {found}. Data that are no formulas can be stated with flm.products([...])."
            )
    if num_subnets is not None:
        otherwise = lambda finer: solve_pde(
            problem, finer, num_subnets=None, method=None, max_columns=None, seed=seed, progress=progress
        )
        return solve_by_waves(
            problem, tol, otherwise, num_subnets=num_subnets, max_columns=max_columns, seed=seed, progress=progress
        )
    other = solve_by_sparse_sets(problem, tol, max_columns=max_columns, seed=seed, progress=progress)
    return other if solution is None or other.error_estimate < solution.error_estimate else solution
