"""The bench of np.linalg and np.fft compares the same results."""

from bench.linalg import least_seconds, rows


def test_rows_have_names_of_their_own_and_run() -> None:
    small = [row for row in rows() if " 3" in row[0] and "x" not in row[0]]
    assert len({name for name, _, _ in rows()}) == len(list(rows()))
    for _, function, arguments in small[:2]:
        (seconds,) = least_seconds([lambda f=function, a=arguments: f(*a)], 0)
        assert 0 < seconds < 10
