"""Trajectories under any control, for tests."""
