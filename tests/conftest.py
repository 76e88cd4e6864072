"""Shared settings: examples enough to find mistakes, few enough to stay quick; no deadline, since XLA compiles."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "flm", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("flm")
