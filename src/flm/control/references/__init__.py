"""Independent answers of optimal control: Pontryagin, direct collocation, Riccati."""
