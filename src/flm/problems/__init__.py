"""What to solve: problems of all kinds, their conditions, a catalogue of named ones, and problems as text.

This is a door: what is offered here lives in the rooms. The catalogue is a function per problem, with the paper's values
as defaults (`pde`, `conservation`, `control`), and those that others posed (`ordinary`, `strangers`). `text` reads a TOML
file and gives it to the reader of the room whose table it has: [equation], [conservation] or [control].
"""

import importlib
import inspect
from collections.abc import Callable

from flm.conservation.law import ConservationLaw as ConservationLaw
from flm.control.problem import Free as Free
from flm.control.problem import OptimalControl as OptimalControl
from flm.language.learn import Learn as Learn
from flm.language.piecewise import Piecewise as Piecewise
from flm.language.ranges import Range as Range
from flm.pde.conditions import Condition as Condition
from flm.pde.conditions import Data as Data
from flm.pde.conditions import Periodic as Periodic
from flm.pde.conditions import data as data
from flm.pde.conditions import dirichlet as dirichlet
from flm.pde.conditions import initial as initial
from flm.pde.conditions import neumann as neumann
from flm.pde.conditions import on as on
from flm.pde.conditions import periodic as periodic
from flm.pde.conditions import robin as robin
from flm.pde.problem import PDE as PDE
from flm.problems.conservation import buckley_leverett as buckley_leverett
from flm.problems.conservation import burgers as burgers
from flm.problems.control import double_integrator as double_integrator
from flm.problems.control import linear_quadratic as linear_quadratic
from flm.problems.control import minimum_time as minimum_time
from flm.problems.control import pendulum as pendulum
from flm.problems.control import rock_paper_scissors as rock_paper_scissors
from flm.problems.control import rpssl as rpssl
from flm.problems.control import van_der_pol as van_der_pol
from flm.problems.ordinary import brusselator as brusselator
from flm.problems.ordinary import hires as hires
from flm.problems.ordinary import lorenz as lorenz
from flm.problems.ordinary import lotka_volterra as lotka_volterra
from flm.problems.ordinary import oregonator as oregonator
from flm.problems.ordinary import pleiades as pleiades
from flm.problems.ordinary import robertson as robertson
from flm.problems.ordinary import three_body as three_body
from flm.problems.ordinary import van_der_pol_oscillator as van_der_pol_oscillator
from flm.problems.pde import acoustics as acoustics
from flm.problems.pde import advection as advection
from flm.problems.pde import allen_cahn as allen_cahn
from flm.problems.pde import biharmonic as biharmonic
from flm.problems.pde import black_scholes as black_scholes
from flm.problems.pde import convection_diffusion as convection_diffusion
from flm.problems.pde import heat as heat
from flm.problems.pde import helmholtz as helmholtz
from flm.problems.pde import klein_gordon as klein_gordon
from flm.problems.pde import oscillator as oscillator
from flm.problems.pde import poisson as poisson
from flm.problems.pde import poisson_3d as poisson_3d
from flm.problems.pde import poisson_5d as poisson_5d
from flm.problems.pde import reaction_diffusion as reaction_diffusion
from flm.problems.pde import stiff as stiff
from flm.problems.pde import viscous_burgers as viscous_burgers
from flm.problems.pde import wave as wave
from flm.problems.strangers import allen_cahn_periodic as allen_cahn_periodic
from flm.problems.strangers import burgers_2d as burgers_2d
from flm.problems.strangers import cavity as cavity
from flm.problems.strangers import gray_scott as gray_scott
from flm.problems.strangers import heat_long_time as heat_long_time
from flm.problems.strangers import korteweg_de_vries as korteweg_de_vries
from flm.problems.strangers import kuramoto_sivashinsky as kuramoto_sivashinsky
from flm.problems.strangers import poisson_boltzmann as poisson_boltzmann
from flm.problems.strangers import poisson_holes as poisson_holes
from flm.problems.strangers import poisson_sines as poisson_sines
from flm.problems.strangers import schroedinger as schroedinger
from flm.problems.text import parse_problem as parse_problem
from flm.problems.text import read_problem as read_problem

KINDS = (
    "pde",
    "conservation",
    "control",
    "ordinary",
    "strangers",
)  # modules of this folder with a function per problem


def catalogue(kinds: tuple[str, ...] = KINDS) -> dict[str, Callable[..., PDE | ConservationLaw | OptimalControl]]:
    """Makers of problems by name, sorted: those whose arguments all have defaults, of some kinds or of all.

    Example:
        >>> catalogue()["heat"](alpha=0.2).exact_values([[0.5, 0.0]])
        array([1.])
    """
    found = {}
    for kind in kinds:
        module = importlib.import_module(f"flm.problems.{kind}")
        for name, value in inspect.getmembers(module, inspect.isfunction):
            own = value.__module__ == module.__name__ and not name.startswith("_")
            if own and all(p.default is not p.empty for p in inspect.signature(value).parameters.values()):
                found[name] = value
    return dict(sorted(found.items()))
