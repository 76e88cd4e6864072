"""Filling holes in tables and time series: dense, coupled and windowed models with calibrated bands."""
