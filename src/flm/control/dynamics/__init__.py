"""Following the dynamics under a control: compiled kernels, the integrator, trajectories with costates."""
