"""Regression on tables: lattices, spectral lines and learned waves, compared by their evidence."""
