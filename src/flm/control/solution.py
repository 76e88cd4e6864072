"""What solving an optimal control problem returns: a control law that is its series, with an account of how good it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from flm.control.law import ControlLaw
from flm.control.networks import StateNetworks
from flm.results import AbstractResult
from flm.results.result import optional_module
from flm.series import PhaseSeries
from flm.wording import InputError


@dataclass(frozen=True)
class CostComparison:
    """Costs of the simulated dynamics beside reference costs, over initial states (P, n).

    Attributes:
        percentage_errors: 100 (cost - reference) / |reference|, signed, (P,).
        mape: Mean absolute percentage error, as in the paper.
        mae: Mean absolute error.
        worst: Largest absolute percentage error.
        network_mape: The same for the networks' own cost.
    """

    x0: np.ndarray
    cost: np.ndarray
    network_cost: np.ndarray
    reference: np.ndarray

    @property
    def percentage_errors(self) -> np.ndarray:
        """Signed, in percent, (P,)."""
        return 100.0 * (self.cost - self.reference) / np.abs(self.reference)

    @property
    def mape(self) -> float:
        """Mean absolute percentage error."""
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
        starts: The initial states it is for.
        controls: The names of the controls.
        method: "reduced" or "penalty".
        networks: The penalty method's own state series; None for the reduced method.
        largest_violation: Of path and terminal constraints, where the law was checked.
        error_estimate: Estimated relative excess of the simulated cost over the optimum, worst initial state.
        problem: What was solved; not stored in files, see `attach`.

    The rest is what `flm.results.AbstractResult` has: `status`, `converged`, `tolerance`, `history`, ….
    """

    law: ControlLaw
    starts: Any
    controls: tuple[str, ...]
    method: str = "reduced"
    networks: StateNetworks | None = None
    largest_violation: float = 0.0
    problem: Any = field(default=None, repr=False)

    not_stored: ClassVar[tuple[str, ...]] = ("problem",)

    @property
    def num_subnets(self) -> int:
        """The number of sub-networks of the control."""
        return self.law.num_subnets

    @property
    def num_parameters(self) -> int:
        """How many numbers the control law consists of."""
        return self.law.num_parameters

    # --- the law ---------------------------------------------------------------------------------------------------

    def control(self, t: Any, x0: Any = None) -> np.ndarray:
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
        image, turns, one = self._locate(x0)
        times = np.atleast_1d(np.asarray(t, float))
        s = self._normalized(times, image)
        u = self.law.controls(s, image) @ turns
        u = u[..., 0] if len(self.controls) == 1 else u
        u = u[0] if one else u
        return u if np.ndim(t) else np.take(u, 0, axis=0 if one else 1)

    def horizon(self, x0: Any = None) -> Any:
        """The final time from x0: a number, or one for each state."""
        image, _, one = self._locate(x0)
        duration = self.law.duration(image)
        return float(duration[0]) if one else duration

    @property
    def series(self) -> PhaseSeries:
        """The control before squashing as a series in (t, x0…), physical units; in (s, x0…), s = t/T, when T is free.

        Inside the bounds it is the control. Sub-networks of a law for one state are waves in t alone.
        """
        return self.law.series(self._axes)

    @property
    def _axes(self) -> tuple[str, ...]:
        time = "t" if self.law.duration_coefficients is None else "s"
        return (time, *(f"{name}_0" for name in self.starts.states[: len(self.law.center)]))

    def __call__(self, t: Any, x0: Any = None) -> np.ndarray:
        """The control: see `control`."""
        return self.control(t, x0)

    # --- how good it is --------------------------------------------------------------------------------------------

    def cost(self, x0: Any = None) -> Any:
        """The cost of the *simulated* dynamics under the law, tightly integrated: a number, or one for each state."""
        followed, one = self._follow(x0)
        return float(followed.cost[0]) if one else followed.cost

    def network_cost(self, x0: Any = None) -> Any:
        """The cost of the networks' own states and controls; the simulated cost for the reduced method, which has no state
        networks. It can be below the optimum: see `predicted_bias`.
        """
        if self.networks is None:
            return self.cost(x0)
        image, _, one = self._locate(x0)
        cost = self.networks.cost(self._problem, self.law, image)
        return float(cost[0]) if one else cost

    def predicted_bias(self, x0: Any = None) -> Any:
        """What a penalty method's own cost is expected to be below the optimum: -∫|p|²/μ₁ dt - |p(0)|²/μ₂ (first order).

        p are the costates along the simulated trajectory. Zero for the reduced method.
        """
        followed, one = self._follow(x0)
        bias = np.zeros(len(followed.cost))
        if self.networks is not None:
            along, first = followed.costates()
            bias = -along / self.networks.penalties[0] - first / self.networks.penalties[1]
        return float(bias[0]) if one else bias

    def dynamics_residual(self, x0: Any = None) -> Any:
        """The largest |dx/dt - f| along the networks' own states; zero for the reduced method, whose states solve it."""
        image, _, one = self._locate(x0)
        worst = (
            np.zeros(len(image)) if self.networks is None else self.networks.residual(self._problem, self.law, image)
        )
        return float(worst[0]) if one else worst

    def trajectory(self, t: Any, x0: Any = None) -> np.ndarray:
        """All states at times t (R,) along the simulated dynamics, (R, n) or (P, R, n)."""
        followed, one = self._follow(x0)
        times = np.atleast_1d(np.asarray(t, float))
        if times.min() < -1e-12 or (times > followed.duration.min() * (1 + 1e-12)).any():
            raise InputError(f"`t` must be from 0 to the horizon {followed.duration.min():.6g}; got {times.max():.6g}.")
        x = followed.states(times)
        x = x[0] if one else x
        return x if np.ndim(t) else np.take(x, 0, axis=-2)

    def network_trajectory(self, t: Any, x0: Any = None) -> np.ndarray:
        """All states at times t (R,) as the state networks have them; the simulated ones for the reduced method."""
        if self.networks is None:
            return self.trajectory(t, x0)
        image, _, one = self._locate(x0)
        _, which = self.starts.locate(self._own(x0))
        x = self.networks.states(self._problem, self._normalized(np.atleast_1d(np.asarray(t, float)), image), image)
        x = np.stack([states @ self.starts.group[index].states for states, index in zip(x, which, strict=True)])
        return x[0] if one else x

    def violation(self, x0: Any = None) -> Any:
        """The largest path or terminal constraint value along the simulated dynamics; zero without constraints."""
        followed, one = self._follow(x0)
        worst = followed.violation()
        return float(worst[0]) if one else worst

    def compare(
        self, reference: Any = "pontryagin", x0: Any = None, *, num_starts: int = 100, seed: int = 1
    ) -> CostComparison:
        """Simulated costs beside a reference's, on given or fresh random initial states.

        Args:
            reference: "pontryagin", "collocation" (one solve for each state), another solution, or the costs themselves.
            x0: States (P, n); `num_starts` random ones of `initial` when left out.
            num_starts: How many.
            seed: Of the random states.
        """
        problem = self._problem
        if x0 is None:
            x0 = self._own(None) if not self.starts.dimension else problem.sample(num_starts, seed=seed)
        x0 = self.starts.lift(self.starts.coordinates(x0))
        if isinstance(reference, str):
            truth = problem.optimal_costs(x0, reference)
        elif callable(own := getattr(reference, "cost", None)):
            truth = np.atleast_1d(np.asarray(own(x0), float))
        else:
            truth = np.atleast_1d(np.asarray(reference, float))
        if truth.shape != (len(x0),):
            raise InputError(f"`reference` must have one cost for each of {len(x0)} states; got shape {truth.shape}.")
        cost = np.atleast_1d(self.cost(x0))
        network = cost if self.networks is None else np.atleast_1d(self.network_cost(x0))
        return CostComparison(x0, cost, network, truth)

    errors = compare

    # --- to other tools --------------------------------------------------------------------------------------------

    def to_pandas(self, x0: Any = None, num_times: int = 101) -> Any:
        """A `pandas.DataFrame` of states and controls against time, one block for each state (extra `frames`)."""
        pandas = optional_module("pandas")
        tables = []
        for index, state in enumerate(np.atleast_2d(self._own(x0))):
            t = np.linspace(0.0, self.horizon(state), num_times)
            x, u = self.trajectory(t, state), self.control(t, state).reshape(num_times, -1)
            columns = {"start": np.full(num_times, index), "t": t}
            columns |= {name: x[:, i] for i, name in enumerate(self.starts.states)}
            tables.append(pandas.DataFrame(columns | {name: u[:, i] for i, name in enumerate(self.controls)}))
        return pandas.concat(tables, ignore_index=True)

    def to_xarray(self, x0: Any = None, num_times: int = 101) -> Any:
        """An `xarray.Dataset` of states and controls over (start, s), s = t/T (extra `frames`)."""
        xarray = optional_module("xarray")
        states = np.atleast_2d(self._own(x0))
        s = np.linspace(0.0, 1.0, num_times)
        followed, _ = self._follow(states)
        t = s * followed.duration[:, None]
        image, turns, _ = self._locate(states)
        x, u = followed.states(t), self.law.controls(s, image) @ turns
        named = {name: (("start", "s"), x[..., i]) for i, name in enumerate(self.starts.states)}
        named |= {name: (("start", "s"), u[..., i]) for i, name in enumerate(self.controls)}
        return xarray.Dataset(named | {"t": (("start", "s"), t)}, coords={"s": s})

    def plot(self, x0: Any = None, **options: Any) -> Any:
        """States and control against time, with the path on the simplex for three states on it; a matplotlib figure."""
        from flm.report.figures.control import plot_control

        return plot_control(self, x0, **options)

    def attach(self, problem: Any) -> ControlSolution:
        """This solution, read from a file, with the problem that it solves: what cost and trajectories need.

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
        lines = [
            f"ControlSolution {', '.join(self.controls)}({', '.join(self._axes)}): {self.status.sentence}",
            f"  {self.method}, {self.num_subnets} sub-networks, {self.num_columns} columns, error estimate "
            f"{self.error_estimate:.1e}, {self.seconds:.2f} s",
        ]
        return "\n".join(lines)

    # --- inside ----------------------------------------------------------------------------------------------------

    @property
    def _problem(self) -> Any:
        if self.problem is None:
            raise InputError("this needs the problem, which a file does not hold: use `solution.attach(problem)`.")
        return self.problem

    def _own(self, x0: Any) -> Any:
        if x0 is not None:
            return x0
        if self.starts.dimension:
            raise InputError(f"`x0` must be given: the law is for {self.starts}.")
        return self.starts.lift(self.starts.center)

    def _locate(self, x0: Any) -> tuple[np.ndarray, np.ndarray, bool]:
        """Images of the states inside `initial`, (P, d), the matrices that turn controls back, (P, K, K), and if it is one."""
        x0 = self._own(x0)
        image, which = self.starts.locate(x0)
        turns = np.stack([member.controls for member in self.starts.group])[which]
        return image, turns, np.ndim(x0) == 1

    def _normalized(self, times: np.ndarray, image: np.ndarray) -> np.ndarray:
        duration = self.law.duration(image)
        if times.min() < -1e-12 or times.max() > duration.min() * (1 + 1e-12):
            raise InputError(f"`t` must be from 0 to the horizon {duration.min():.6g}; got {times.tolist()[:4]}.")
        return times / duration[:, None] if self.law.duration_coefficients is not None else times / self.law.horizon

    def _follow(self, x0: Any) -> tuple[Any, bool]:
        """The simulated trajectories from the states themselves, not from their images."""
        problem, x0 = self._problem, self._own(x0)
        image, turns, one = self._locate(x0)
        asked = self.law.inputs_at(image)
        k = len(self.controls)

        def inputs(s, part):
            values = asked(s, part)
            turned = values[..., :k] @ turns[part]
            return np.concatenate([turned, values[..., k:]], axis=-1)

        return problem.follow(inputs, x0, self.law.breaks(image)), one
