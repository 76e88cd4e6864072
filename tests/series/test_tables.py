"""Tables of waves: their two orders of columns, derivatives and antiderivatives, powers by angle addition."""

import numpy as np
import pytest

from flm.series.tables import WaveTable, phasors, powers

POINTS = np.linspace(-2.0, 3.0, 21)
FREQUENCIES = np.array([0.5, 1.0, 7.3])


def test_columns_and_pairs_hold_the_same_waves():
    table = WaveTable.at(POINTS.reshape(3, 7), FREQUENCIES)
    angle = POINTS.reshape(3, 7, 1) * FREQUENCIES
    np.testing.assert_array_equal(table.columns(), np.concatenate([np.cos(angle), np.sin(angle)], axis=-1))
    np.testing.assert_array_equal(table.pairs(), np.stack([np.cos(angle), np.sin(angle)], axis=-1))


@pytest.mark.parametrize("order", [-2, -1, 0, 1, 2, 5])
def test_derivatives_are_quarter_turns(order):
    angle = np.outer(POINTS, FREQUENCIES)
    turned = np.concatenate([np.cos(angle + order * np.pi / 2), np.sin(angle + order * np.pi / 2)], axis=1)
    expected = turned * np.tile(FREQUENCIES, 2) ** float(order)
    scale = np.tile(FREQUENCIES, 2) ** float(order)
    found = WaveTable.at(POINTS, FREQUENCIES).columns(order)
    np.testing.assert_allclose(found / scale, expected / scale, atol=1e-14)


def test_differentiation_undoes_integration():
    table = WaveTable.at(POINTS, FREQUENCIES)
    np.testing.assert_allclose(table.derivative(-1).derivative(1).columns(), table.columns(), rtol=1e-15)


@pytest.mark.parametrize("highest", [0, 1, 2, 3, 64, 200])
def test_powers_add_angles_to_the_last_digits(highest):
    found = powers(POINTS, highest)
    expected = phasors(np.outer(np.arange(highest + 1), POINTS))
    assert found.shape == (highest + 1, len(POINTS))
    np.testing.assert_allclose(found, expected, atol=3e-16 * (10 + 3 * highest))  # the rounded angle counts too
