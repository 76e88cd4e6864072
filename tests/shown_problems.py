"""Problems that pages are tested on."""

import jax.numpy as jnp
import numpy as np

import flm


def heat_on_a_square():
    sides = [flm.dirichlet(side) for side in ("x=0", "x=1", "y=0", "y=1")]
    return flm.PDE(
        flm.Box(x=(0, 1), y=(0, 1), t=(0, 1)),
        lambda u_t, u_xx, u_yy: u_t - 0.05 * (u_xx + u_yy),
        [flm.initial(lambda x, y: jnp.sin(np.pi * x) * jnp.sin(2 * np.pi * y)), *sides],
    )


def ring():
    return flm.PDE(
        flm.Disk(x=0, y=0, radius=1) - flm.Disk(x=0.2, y=0, radius=0.3),
        lambda u_xx, u_yy: u_xx + u_yy - 4,
        [flm.dirichlet("boundary", lambda x, y: x**2 + y**2)],
    )
