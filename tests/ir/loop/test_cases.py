"""Where conditions and indices flip, against looking at every index."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from loopwright.ir.dims import evaluate, floordiv, int_max, int_min, mod, symbol
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.loop.cases import divisors, flips, inside, longest_piece, pieces
from loopwright.ir.loop.expr import const, expr_text, index, op, read, select, within

I, J = symbol("i"), symbol("j")


def x(*indices):
    return read("x", indices, FLOAT32)


def test_a_condition_flips_where_its_side_changes():
    joined = select(op("less", index(I), const(37, index(I).dtype)), x(I), x(I - 37))
    assert flips(joined, {"i": 100, "j": 9}) == {"i": (37,)}
    assert flips(joined, {"i": 30}) == {}


def test_indices_turn_round():
    edge = x(int_max(0, int_min(J - 8, 99)))
    assert flips(edge, {"j": 116}) == {"j": (8, 107)}
    assert flips(edge, {"j": 116}, indices=False) == {}
    around = mod(J + 190, 198)
    reflected = x(int_min(around, 198 - around))
    assert flips(reflected, {"j": 116}) == {"j": (8, 108)}


def test_what_depends_on_two_axes_or_flips_often_is_left():
    assert flips(op("less", index(I), index(J)), {"i": 9, "j": 9}) == {}
    assert flips(x(mod(J, 3)), {"j": 100}) == {}
    assert flips(x(mod(J, 25)), {"j": 100}) == {"j": (25, 50, 75)}
    assert flips(x(mod(J, 10)), {"j": 1000}) == {}


def test_pieces_and_what_remains_in_one():
    assert pieces((3, 8), 10) == [(0, 3), (3, 5), (8, 2)]
    assert longest_piece((3, 8), 10) == (3, 7)
    padded = select(within(I - 3, 0, 5), x(I - 3), const(0.0, FLOAT32))
    assert expr_text(inside(padded, {"i": (3, 7)})) == "x[i - 3]"
    assert expr_text(inside(padded, {"i": (8, 9)})) == "0.0"


@st.composite
def atoms(draw):
    """An index with a few divisions, minima and maxima of one axis."""
    value = I * draw(st.sampled_from((1, 1, 2, -1))) + draw(st.integers(-40, 40))
    for _ in range(draw(st.integers(1, 3))):
        make = draw(st.sampled_from((int_min, int_max, mod, floordiv)))
        by = draw(st.integers(8, 40))
        value = make(value, by) if draw(st.booleans()) else make(I + by, by)
        value = value + draw(st.integers(-5, 5))
    return value


@given(atoms(), st.integers(2, 60))
def test_an_index_is_linear_between_its_flips(value, extent):
    points = flips(x(value), {"i": extent}).get("i", ())
    for start, size in pieces(points, extent):
        found = [evaluate(value, {"i": at}) for at in range(start, start + size)]
        steps = {b - a for a, b in pairwise(found)}
        assert len(steps) <= 1, (str(value), points)


def test_divisors_of_indices_along_an_axis():
    assert divisors(x(floordiv(J, 3), mod(I, 5)), "j") == {3}
    assert divisors(select(op("less", index(mod(J, 2)), index(1)), x(J), x(I)), "j") == {2}
    assert divisors(x(I, J), "j") == set()
