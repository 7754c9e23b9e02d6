"""The likeliest states of a hidden Markov model (Viterbi, 1967)."""

import loopwright as lw
import numpy as np


@lw.compile
def viterbi(start, transition, emission, observed):
    """States and the logarithm of their probability; all arguments but ``observed`` are logs."""

    def forward(score, symbol):
        paths = score[:, None] + transition
        return paths.max(axis=0) + emission[:, symbol], paths.argmax(axis=0)

    score, best = lw.scan(forward, start + emission[:, observed[0]], observed[1:])
    last = score.argmax()
    _, states = lw.scan(lambda state, row: (row[state], state), last, best[::-1])
    return states[::-1], score.max()


def inputs(size=2000, states=32, symbols=16):
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.full(states, 0.2) + 1e-3, states)
    emission = rng.dirichlet(np.full(symbols, 0.2) + 1e-3, states)
    observed = rng.integers(0, symbols, size)
    logs = (np.log(p + 1e-12) for p in (np.full(states, 1 / states), transition, emission))
    return *logs, observed


def main():
    fair, loaded = np.full(6, 1 / 6), np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.5])
    stay = np.array([[0.95, 0.05], [0.10, 0.90]])
    rng, dice = np.random.default_rng(1), np.repeat([0, 1, 0], 20)
    rolls = np.array([rng.choice(6, p=(fair, loaded)[die]) for die in dice])
    logs = np.log([0.5, 0.5]), np.log(stay), np.log([fair, loaded])
    states, probability = viterbi(*logs, rolls)
    for name, row in (("rolls", rolls + 1), ("die", dice), ("viterbi", states)):
        print(f"{name:8}" + "".join(map(str, row)))
    print(f"log probability {probability:.2f}")


if __name__ == "__main__":
    main()
