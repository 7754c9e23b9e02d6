"""The examples of ``lw.grad`` and its kin: each finds what is known in advance."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest

from examples import control, gaussian_process, hmc, neural_ode, pinn, train_digits, tree_lstm

Printed = pytest.CaptureFixture[str]


def test_digits_are_learned(capsys: Printed) -> None:
    assert train_digits.main(6) >= 0.98
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 7 and rows[-1].split()[0] == "6"


def test_the_loss_of_digits_has_the_gradient_of_differences() -> None:
    # Biases of 0 would be kinks: the corners of images are black.
    params = {n: w.astype(np.float64) + 0.01 for n, w in train_digits.start(1).items()}
    images = train_digits.IMAGES[:4].astype(np.float64)
    lw.check_grads(lambda p: train_digits.loss(p, images, train_digits.LABELS[:4]), (params,))


def test_hyperparameters_are_those_of_the_greatest_likelihood(capsys: Printed) -> None:
    theta = gaussian_process.main(40)
    x, values = gaussian_process.data(40)
    best = gaussian_process.loss(theta, x, values)
    for n in range(3):  # the same in NumPy: every way off is up
        for off in -1e-2, 1e-2:
            assert gaussian_process.loss(theta + off * np.eye(3)[n], x, values) > best
    assert np.exp(theta[2]) == pytest.approx(0.2, abs=0.05)
    assert "steps in" in capsys.readouterr().out


def test_samples_have_the_moments_of_the_posterior(capsys: Printed) -> None:
    mean, deviation = hmc.main(1000)
    expected, covariance = hmc.known()
    deviations = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(mean, expected, rtol=0, atol=0.1 * deviations.min())
    np.testing.assert_allclose(deviation, deviations, rtol=0.1)
    accepted = float(capsys.readouterr().out.split("s, ")[1].split("%")[0])
    assert 60 < accepted < 100


def test_the_network_continues_solutions_it_has_not_seen(capsys: Printed) -> None:
    assert neural_ode.main(5) < 0.15
    losses = [float(row.split()[3]) for row in capsys.readouterr().out.splitlines()[:5]]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 5e-3


def test_the_network_solves_the_equation(capsys: Printed) -> None:
    assert pinn.main(2) < 1e-4
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_the_pendulum_stands_at_the_end(capsys: Printed) -> None:
    angle, speed = control.main(1500)
    assert np.cos(angle) < -0.98 and abs(speed) < 0.3
    lw.check_grads(control.cost, (np.linspace(-1, 1, 12),))
    path = control.simulate(np.linspace(-1, 1, 12))  # as Python
    np.testing.assert_allclose(path, lw.compile(control.simulate)(np.linspace(-1, 1, 12)))
    assert "torque" in capsys.readouterr().out


def test_trees_of_words_are_understood(capsys: Printed) -> None:
    _, share = tree_lstm.train(epochs=2)
    assert share >= 0.8
    assert "epoch 1" in capsys.readouterr().out
