"""What solving an optimal control problem returns: a control law that is its series, with an estimate of how good it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from flm.control.dynamics import Simulated, adjoint
from flm.control.law import ControlLaw, Controls, StateNetworks
from flm.control.problem import OptimalControl
from flm.control.starts import Starts
from flm.results import AbstractResult
from flm.series import PhaseSeries
from flm.wording import InputError

if TYPE_CHECKING:
    import pandas

    from flm.control.references import PontryaginSolution

_CHUNK = 256  # starts simulated together
States = npt.ArrayLike | None  # one state (n,) or several (P, n); None for the only state of the law


@dataclass(frozen=True)
class CostComparison:
    """Costs of the simulated dynamics beside reference costs, over initial states (P, n)."""

    x0: np.ndarray  # the states
    cost: np.ndarray  # of the simulated dynamics, (P,)
    network_cost: np.ndarray  # of the networks' own states, (P,)
    reference: np.ndarray  # to compare with, (P,)

    @property
    def percentage_errors(self) -> np.ndarray:
        """100 (cost - reference) / |reference|, signed, (P,)."""
        return 100.0 * (self.cost - self.reference) / np.abs(self.reference)

    @property
    def mape(self) -> float:
        """Mean absolute percentage error, as in the paper."""
        return float(np.abs(self.percentage_errors).mean())

    @property
    def mae(self) -> float:
        """Mean absolute error."""
        return float(np.abs(self.cost - self.reference).mean())

    @property
    def worst(self) -> float:
        """Largest absolute percentage error."""
        return float(np.abs(self.percentage_errors).max())

    @property
    def network_mape(self) -> float:
        """Mean absolute percentage error of the networks' own cost."""
        return float((100.0 * np.abs(self.network_cost - self.reference) / np.abs(self.reference)).mean())

    def __repr__(self) -> str:
        return (
            f"CostComparison over {len(self.cost)} initial states: MAPE {self.mape:.3g} %, largest {self.worst:.3g} %, "
            f"MAE {self.mae:.3g}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ControlSolution(AbstractResult):
    """A control law u(t; x0), found by `solve` on an `OptimalControl` problem.

    Attributes:
        law: The control as a series in (t, x0), squashed to its bounds.
        starts: The initial states that the law is for.
        controls: The names of the controls.
        method: "reduced" or "penalty".
        networks: The penalty method's own state series; None for the reduced method.
        largest_violation: The largest violation of path and terminal constraints along the simulated dynamics, the initial state
            included, where the law was checked.
        error_estimate: Estimated excess of the simulated cost over the optimum, relative to the optimum, worst initial state; of a
            set, states whose cost is below one percent of the mean are judged against that percent. Infinite where a third of
            the cost or more may be lost, or where constraints are not met.
        problem: What was solved; not stored in files, see `attach`.

    The other attributes are those of `flm.results.AbstractResult`: `status`, `converged`, `tolerance`, `history`, ….

    Example:
        >>> import flm
        >>> problem = flm.problems.linear_quadratic(A=-1.0, B=1.0, Q=1.0, R=1.0, initial=(1.0,), horizon=1.0)
        >>> solution = flm.solve(problem, tol=1e-6)
        >>> solution.converged, round(solution.cost(), 6)
        (True, 0.192909)
        >>> round(float(solution.control(0.0)), 4)
        -0.3858
    """

    law: ControlLaw
    starts: Starts
    controls: tuple[str, ...]
    method: str = "reduced"
    networks: StateNetworks | None = None
    largest_violation: float = 0.0
    problem: OptimalControl | None = field(default=None, repr=False)

    not_stored: ClassVar[tuple[str, ...]] = ("problem",)

    @property
    def num_subnets(self) -> int:
        """The number of sub-networks of the control."""
        return len(self.law.frequencies)

    @property
    def num_parameters(self) -> int:
        """How many numbers the control law consists of."""
        return self.law.frequencies.size + self.law.num_columns

    def control(self, t: npt.ArrayLike, x0: States = None) -> np.ndarray:
        """The control at times t from initial states x0.

        Args:
            t: A time, or times (R,), from 0 to the horizon.
            x0: One state (n,) or several (P, n); may be left out when the law is for a single one. A state in a symmetric
                image of `initial` uses the law learned there.

        Returns:
            (R,) or (P, R); several controls stack last. A single time drops its axis.

        Raises:
            ValueError: A state is outside the set that the law is for, or a time is outside the horizon.
        """
        asked = self._asked(x0)
        u = self._controls(asked).squashed(self._normalized(t, asked))  # (P, R, K)
        u = u[..., 0] if len(self.controls) == 1 else u
        u = u[0] if asked.one else u
        return u if np.ndim(t) else np.take(u, 0, axis=0 if asked.one else 1)

    __call__ = control

    def horizon(self, x0: States = None) -> float | np.ndarray:
        """The final time from x0: a number, or one for each state."""
        asked = self._asked(x0)
        return asked.answer(self.law.duration(asked.image))

    @property
    def series(self) -> PhaseSeries:
        """The control before squashing as a series in (t, x0…), physical units; in (s, x0…), s = t/T, when T is free.

        Inside the bounds the series is the control. Sub-networks of a law for one state are waves in t alone.
        """
        return self.law.series(self._axes)

    @property
    def _axes(self) -> tuple[str, ...]:
        time = "t" if self.law.duration_coefficients is None else "s"
        return (time, *(f"{name}_0" for name in self.starts.states[: len(self.law.center)]))

    def cost(self, x0: States = None) -> float | np.ndarray:
        """The cost of the *simulated* dynamics under the law, accurately integrated: a number, or one for each state."""
        return self._simulated(x0, lambda run: run.cost)

    def network_cost(self, x0: States = None) -> float | np.ndarray:
        """The cost of the networks' own states and controls, which can be below the optimum: see `predicted_bias`.

        The reduced method has no networks for the states: its network cost is the simulated cost.
        """
        if self.networks is None:
            return self.cost(x0)
        asked = self._asked(x0)
        return asked.answer(self.networks.cost(self._problem, self.law, asked.image))

    def predicted_bias(self, x0: States = None) -> float | np.ndarray:
        """The first-order estimate of the networks' own cost less the optimum: -∫|p|²/μ₁ dt - |p(0)|²/μ₂, which is negative.

        p are the costates along the simulated trajectory. Zero for the reduced method.
        """
        asked = self._asked(x0)
        if self.networks is None:
            return asked.answer(np.zeros(len(asked.image)))
        mu_dynamics, mu_initial = self.networks.penalties

        def bias(run: Simulated) -> np.ndarray:
            p = adjoint(run)
            along = np.einsum("epq,epqd->p", run.weights, p.stages**2) * run.duration
            return -along / mu_dynamics - (p.initial**2).sum(axis=1) / mu_initial

        return asked.answer(self._along(asked, bias))

    def trajectory(self, t: npt.ArrayLike, x0: States = None) -> np.ndarray:
        """All states at times t (R,) along the simulated dynamics, (R, n) or (P, R, n)."""
        asked, times = self._asked(x0), np.atleast_1d(np.asarray(t, float))
        self._normalized(t, asked)  # refuses times outside the horizon
        x = self._along(asked, lambda run: run.states(times / run.duration[:, None]))
        x = x[0] if asked.one else x
        return x if np.ndim(t) else np.take(x, 0, axis=-2)

    def violation(self, x0: States = None) -> float | np.ndarray:
        """The largest path or terminal constraint value along the simulated dynamics; zero without constraints."""
        return self._simulated(x0, lambda run: run.violation)

    def compare(
        self,
        reference: str | ControlSolution | npt.ArrayLike = "pontryagin",
        x0: States = None,
        *,
        num_starts: int = 100,
        seed: int = 1,
    ) -> CostComparison:
        """Simulated costs beside reference costs, on given or random initial states.

        Args:
            reference: "pontryagin" (one solve for each state), another solution, or the costs themselves.
            x0: States (P, n); `num_starts` random ones of `initial` when left out.
            num_starts: How many random states.
            seed: Fixes these random states.
        """
        problem = self._problem
        if x0 is None and self.starts.dimension:
            x0 = problem.sample(num_starts, seed=seed)
        x0 = np.atleast_2d(self._asked(x0).x0)
        if isinstance(reference, str):
            if reference != "pontryagin":
                raise InputError(f"`reference` must be 'pontryagin', a solution or costs; got {reference!r}.")
            truth = problem.optimal_costs(x0)
        else:
            truth = np.asarray(reference.cost(x0) if isinstance(reference, ControlSolution) else reference, float)
        truth = np.atleast_1d(truth)
        if truth.shape != (len(x0),):
            raise InputError(f"`reference` must have one cost for each of {len(x0)} states; got shape {truth.shape}.")
        cost = np.atleast_1d(self.cost(x0))
        return CostComparison(x0, cost, cost if self.networks is None else np.atleast_1d(self.network_cost(x0)), truth)

    def to_pandas(self, x0: States = None, num_times: int = 101) -> pandas.DataFrame:
        """A `pandas.DataFrame` of states and controls against time, one block for each state."""
        import pandas

        asked, s = self._asked(x0), np.linspace(0.0, 1.0, num_times)
        t = s * self.law.duration(asked.image)[:, None]
        states = self._along(asked, lambda run: run.states(np.broadcast_to(s, (len(run.cost), num_times))))
        rows = np.concatenate([states, self._controls(asked).squashed(s)], axis=-1)  # (P, R, n + k)
        columns = {"start": np.repeat(np.arange(len(t)), num_times), "t": t.ravel()}
        columns |= {name: rows[..., i].ravel() for i, name in enumerate((*self.starts.states, *self.controls))}
        return pandas.DataFrame(columns)

    def plot(self, x0: States = None, *, reference: str | PontryaginSolution | None = None) -> Any:
        """A matplotlib figure of states and control against time, with the path on the simplex if it has three states.

        Args:
            x0: Initial states; the only one of the law, or three spread over its set when left out.
            reference: What to draw dashed, for a single initial state; "pontryagin" solves for it.
        """
        from flm.report.figures.control import plot_control

        return plot_control(self, x0, reference=reference)

    def attach(self, problem: OptimalControl) -> ControlSolution:
        """This solution, read from a file, with its problem attached, which costs and trajectories need.

        Raises:
            ValueError: The problem has other states, controls or initial states.
        """
        same = problem.states == self.starts.states and problem.controls == self.controls
        if not same or str(problem.starts) != str(self.starts):
            raise InputError(
                f"`problem` must be the one that was solved, states {', '.join(self.starts.states)}, controls "
                f"{', '.join(self.controls)} and {self.starts}; got {', '.join(problem.states)}, "
                f"{', '.join(problem.controls)} and {problem.starts}."
            )
        return replace(self, problem=problem)

    def __repr__(self) -> str:
        return (
            f"ControlSolution {', '.join(self.controls)}({', '.join(self._axes)}): {self.status.sentence}\n"
            f"  {self.method}, {self.num_subnets} sub-networks, {self.num_columns} columns, error estimate "
            f"{self.error_estimate:.1e}, {self.seconds:.2f} s"
        )

    @property
    def _problem(self) -> OptimalControl:
        if self.problem is None:
            raise InputError("this needs the problem, which a file does not hold: use `solution.attach(problem)`.")
        return self.problem

    def _asked(self, x0: States) -> _Asked:
        if x0 is None:
            if self.starts.dimension:
                raise InputError(f"`x0` must be given: the law is for {self.starts}.")
            x0 = self.starts.lift(self.starts.center)
        image, which = self.starts.locate(x0)
        return _Asked(self.starts.lift(self.starts.coordinates(x0)), image, which, np.ndim(x0) == 1)

    def _simulated(self, x0: States, value: Callable[[Simulated], np.ndarray]) -> float | np.ndarray:
        """A value of each simulated trajectory; a plain number if a single state was given."""
        asked = self._asked(x0)
        return asked.answer(self._along(asked, value))

    def _normalized(self, t: npt.ArrayLike, asked: _Asked) -> np.ndarray:
        """s = t/T, (R,), or (P, R) when T depends on the start."""
        times, duration = np.atleast_1d(np.asarray(t, float)), self.law.duration(asked.image)
        if times.min() < -1e-12 or times.max() > duration.min() * (1 + 1e-12):
            raise InputError(f"`t` must be from 0 to the horizon {duration.min():.6g}; got {times.tolist()[:4]}.")
        return times / duration[:, None] if self.law.duration_coefficients is not None else times / self.law.horizon

    def _controls(self, asked: _Asked) -> Controls:
        """The controls from the states asked about: those from their images, turned back."""
        turns = np.stack([member.controls for member in self.starts.group])[asked.which]  # which keep bounds and offset
        controls = self.law.at(asked.image)
        return replace(controls, amplitudes=controls.amplitudes @ turns)

    def _along(self, asked: _Asked, value: Callable[[Simulated], np.ndarray]) -> np.ndarray:
        """A value of the simulated trajectories from the states themselves, not from their images."""
        controls, v0 = self._controls(asked), self.starts.coordinates(asked.x0)
        parts = [slice(start, start + _CHUNK) for start in range(0, len(v0), _CHUNK)]
        return np.concatenate([value(controls[part].follow(self._problem, v0[part])) for part in parts])


class _Asked(NamedTuple):
    """Initial states (P, n) that were asked about.

    `image` (P, d) are the coordinates of their images inside `initial`, `which` (P,) the symmetries that lead there; `one`
    says that a single state was given.
    """

    x0: np.ndarray
    image: np.ndarray
    which: np.ndarray
    one: bool

    def answer(self, values: np.ndarray) -> float | np.ndarray:
        """Values (P,) as they are, or as a number if a single state was given."""
        return float(values[0]) if self.one else values
