"""A grammar of Python functions on arrays and numbers, from which ``random_constructs`` draws."""

HELPERS = """
import math

LIMIT = 3
TABLE = np.array([0.5, -1.0, 2.0, 1.5])

class Holder:
    def __init__(self, total):
        self.total = total
        self.last = 0.0
    def add(self, v):
        self.total = self.total + v
        return self.total

def h(v):
    if v > 1:
        return v - 1
    return -v * 0.5

def fib(i):
    if i < 2:
        return i
    return fib(i - 1) + fib(i - 2)

def gcd(i, j):
    return i if j == 0 else gcd(j, i % j)

def walk(x, low, high):
    if low >= high:
        return 0.0
    middle = (low + high) // 2
    x[middle] = x[middle] * 0.5 + 1
    return x[middle] + walk(x, low, middle) + walk(x, middle + 1, high)

def sort(x, low, high):
    if low >= high:
        return
    pivot, at = x[high], low
    for j in range(low, high):
        if x[j] < pivot:
            x[at], x[j] = x[j], x[at]
            at += 1
    x[at], x[high] = x[high], x[at]
    sort(x, low, at - 1)
    sort(x, at + 1, high)

def found(x, v):
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low

def first(x, v):
    for i, u in enumerate(x):
        if u > v:
            return i
    return -1

def both(u, v=1.5, *others, scale=1):
    return u * scale + v, u - v + len(others)

def is_even(i):
    return True if i == 0 else is_odd(i - 1)

def is_odd(i):
    return False if i == 0 else is_even(i - 1)

def pieces(v):
    yield v
    yield v * 0.5
    yield 1.5

def checked(v):
    if v > 3:
        raise ValueError("too large")
    return v
"""

BEGIN = """
b, c, k, m = 0.0, 0, 1, 2
z, q, p = x[1:5], np.zeros(6), [a, 1.0, 2.5]
d, o, e = {'s': 0.5, 'c': 1}, Holder(1.0), np.float32(1.5)
"""

INNER = """
def g(u):
    nonlocal b
    b += u * 0.5
    return u + b
def bump(by):
    nonlocal c
    c += by
    return c
"""

END = "return a, b, c, k, m, z.sum(), q, p, d, o, e"

LITERALS = {"small": "0 1 2 3", "signed": "-3 -2 -1 0 1 2 4 7", "real": "0.5 1.5 -2.0 0.25"}

GRAMMAR = {
    "int": """
{ints}
{signed}
{small}
({int} {+|-} {int})
({int} * {signed})
({int} % {2|3|5|-3|-4})
({int} // {2|3|4|-2|-3})
(-{int} % 5)
(-{int} // 3)
abs({int})
({int} & {1|3|7})
({int} | {1|4})
({int} ^ 5)
(~{int})
({int} << {0|1|2})
({int} >> {1|2})
divmod({int}, {3|-4})[{0|1}]
({int} ** 2 % 11)
{min|max}({int}, {int})
({int} if {test} else {int})
int({number}) % 50
y[{int} % 8] % 10
len({p|x|z[1:]|w})
(({test}) + {int})
int({test})
gcd(abs({int}), {4|6|9})
fib({int} % 6)
first({x|z|y}, {floats})
found(TABLE, {floats})
np.argmax({x|y|w[1]})
(round({number}) % 20)
sum([1 for v in y if v > {ints}])
LIMIT
(x.shape[0] - {small})
w.shape[1]
math.floor({number}) % 9
np.int32({int} % 7)
[3, 1, 2][{0|1|-1}]
is_even(abs({int}) % 7) * 2
""",
    "number": """
{floats}
{int}
{real}
x[{int} % 6]
z[{0|1|-1}]
w[{int} % 3, {int} % 4]
w[{int} % 3][{int} % 4]
p[{0|-1}]
y[{int} % 8]
({number} {+|-|*} {number})
({number} / {2|3|-4.0|0.7})
({number} // {2|-1.5|0.5})
({number} % {2|1.5|-2.5|-3})
({number} if {test} else {number})
{min|max}({number}, {number})
{min|max}({number}, {int}, {number})
abs({number})
-{number}
+{number}
h({number})
np.{sin|cos|tanh}({number})
math.{sin|cos|tanh|atan}({number})
float({int})
np.float32({number})
np.float64({int})
{x|z|q|w|x[1:4]|x[::-2]|w[:, 1]|y}.{sum|max|min|mean}()
x[{slice}].sum()
sum(v * {floats} for v in {x|z|p|y[:3]})
sum({x|z|p|y})
max(p)
sum(v for v in x if v > {floats})
(lambda u, v=2: u * v + {real})({number})
both({number})[{0|1}]
both({number}, {real}, 1, scale={small})[1]
o.total
d['{s|c}']
TABLE[{int} % 4]
({number} or {real})
({test} and {number})
({number}) ** 2
round({number}, 1)
np.where({test}, {number}, {number})
np.dot(x[:3], {z[:3]|x[3:]|x[2::-1]})
(x * {number} + 1)[{int} % 6]
sum(u * v for u, v in zip(x, {z|y|p}))
next(pieces({number}))
sum(pieces({number}))
[{number}, {number}, {number}][{small} % 3]
e
math.sqrt(abs({number}))
""",
    "test": """
{number} {<|>|<=|>=} {number}
{int} {==|!=|<|>=} {int}
{number} < {number} {<|<=} {number}
{int} < {int} <= {int} {<|!=} {int}
({test}) {and|or} ({test})
not ({test})
not {int}
{int} in ({small}, {signed}, 5)
{int} not in [{small}, {signed}]
bool({int})
bool({number})
any(v > {floats} for v in {x|z|p})
all(v > {ints} for v in {x|y})
({x|z|w[0]} > {number}).{any|all}()
is_even(abs({int}) % 7)
a is not None
isinstance({floats}, str)
({test}) == ({test})
y[{int} % 8] {>|==} x[{int} % 6]
len(p) > {2|9}
""",
    "slice": """
{|0|1|-3}:{|4|6|-1}
{|0|1|-3}:{|4|6|-1}:{2|-1|-2}
{int} % 4:{|6|-1}
{int} % 3:{int} % 3 + 2
:{int} % 6
-({int} % 4):
{int} % 5::-1
""",
    "statement": """
{floats} = {number}
{ints} = {int} % 40
{floats} {+=|-=|*=} {number}
{ints} {+=|-=} {signed}
{ints} {//=|%=} {2|3|-2|-5}
{ints} {&=|^=|>>=} {1|2|5}
x[{int} % 6] {=|+=|-=|*=} {number}
x[{ints}] {=|+=} {real}
y[{int} % 8] {=|+=|-=} {int}
y[{int} % 8] {//=|%=|>>=|&=} {3|7|2}
y[{int} % 8] = y[{int} % 8] * y[{int} % 8] + {signed}
z[{0|1|-1}] {=|+=|*=} {number}
z[:] {=|+=|*=} {number}
z {+=|*=} {number}
w[{int} % 3, {int} % 4] {=|+=|*=} {number}
w[{int} % 3][{int} % 4] {=|+=} {number}
w[{int} % 3] {=|+=} {number}
w[:, {int} % 4] {=|*=} {number}
w[{int} % 3, {slice}] {+=|=} {number}
w.T[{int} % 4] {+=|=} {number}
w[{0|1}], w[{2|1}] = w[{1|2}].copy(), w[0] * 0.5
x[{slice}] {=|+=|-=|*=} {number}
y[{slice}] {+=|-=} {int}
x[{0|1|2}:{3|4}] = x[{int} % 4] * x[{2|1}:{5|4}].sum()
x[:3] {=|+=|*=} x[{3:|2:5|2::-1}]
x[1:] {+=|-=|=} x[:-1] * 0.5
x[::-1] {+=|=} x * {real}
x {+=|*=} {number}
q[{int} % 6] {=|+=} {number}
q[x > {number}] {=|+=} {real}
q[:] = {np.cumsum(x)|np.sort(x)|q[::-1]|x + 1}
e = np.float32({number})
e = e {*|+} np.float32({real})
{floats}, {ints} = {number}, {int} % 30
{floats}, ({ints}, {floats}) = {number}, ({int} % 30, {number})
x[{int} % 6], x[{int} % 6] = x[{int} % 6], x[{int} % 6]
x[{int} % 6], {floats} = {number}, x[{int} % 6]
{floats}, *r1 = {p|x[:3]|z[:2]|both({number})}
k, m = m, (k + m) % 30
a, b = b, a
{floats} = {floats} = {number}
{floats} = (t2 := {number}) + t2
{floats} = walk(x, 0, {int} % 6)
sort({x|q}, 0, {3|2|n % 4})
{floats} = {number} + g({number})
{ints} = bump({int}) % 20
{floats}, b = both({number}, v={number})
assert {test} or {test}, 'no'
assert {number} < 1e6
s1 = {number};{floats} = s1 * 2;del s1
np.add(x, {number}, out=x)
np.{add|maximum}.at(x, [0, 2, 0], {number})
x.fill({real})
x.sort()
pass
{floats} = b if isinstance(x, np.ndarray) else {number}
""",
    "known": """
z = {x|x[1:4]|x[::-1]|x[::2]|x.copy()|w[1]|w[:, 0]|w.T[2]|x[2:][1:]|w.ravel()|x.reshape(2, 3)[1]|q}
x = {x * 0.5|x + q|x[::-1]|np.where(x > 0, x, 0)|x.copy()|np.abs(x)}
q = {np.zeros(6)|x + 1|q * 0.5|np.cumsum(x)|np.full(6, 2.0)|np.sort(x)|q[::-1]}
p[{0|-1}] {=|+=} {number}
p.append({number})
p = [u * {real} for u in p]
p = [{number}, *p[1:]]
p.{reverse()|insert(0, 1.5)|extend([{real}, 2.0])|extend(p[:1])}
{floats} = p.pop() if len(p) > 2 else {number}
d['{s|c}'] {=|+=} {int}
d = dict(d, s={number})
d.update(s={number})
o.{total|last} {=|+=} {number}
o = Holder({number})
{floats} = o.add({number})
{new r} = [[0.0, 1.0], [{number}, 2.0]];{r}[1][0] {+=|=} {number};{floats} = {r}[1][0] + {r}[0][1]
{new r} = np.zeros({(3, 3)|(2, 4)});{r}[{int} % 2, 1] = {number};{floats} += {r}.sum()
{new r} = {x|q|z};{r}[{0|1}] {=|+=} {number};{floats} = x[1] + q[0]
{new r} = [x[{new i}] * {number} for {i} in range({3|6})];{floats} = sum({r})
def f{new u}(v):;    if v > {number}:;        return v * {real};    return v - {number};\
{floats} = f{u}({number})
def f{new u}(v):;    for {new i} in range({3|n|20}):;        v = v * 0.5 + {number};\
        if v > 3:;            break;    return v;{floats} = f{u}({number})
if LIMIT {>|<} {int}:;    {known};else:;    {known}
for {new i} in range({3|5|2|20}):;    {known i}
for {new i}, v in enumerate(p):;    {floats} += v;    {known i}
for v in {p|x|[1.5, 2.0]}:;    {floats} += v;    {known}
for key in d:;    {floats} += d[key] * {real};    {known}
{new t} = 0;while {t} < 4:;    {t} += 1;    {known t}
try:;    {known};except {IndexError|KeyError}:;    b = 1.0
try:;    {known};finally:;    b = b + 1.0
try:;    {floats} = {real};except ValueError:;    {known};else:;    {known}
try:;    {floats} = p[7];except IndexError as error:;    {known}
try:;    {floats} = d['none'];except (KeyError, ValueError):;    {known}
with np.errstate(all='ignore'):;    {known}
match LIMIT % {2|3|4}:;    case 0:;        {known};    case 1 | 2:;        {known}
for v in pieces({number}):;    {floats} += v;    {known}
""",
    "nested": """
if {test}:;    {block}
if (t1 := {int}) > 2 and t1 < 9:;    {block}
if {test}:;    {block};else:;    {block}
if {test}:;    {block};elif {test}:;    {block};else:;    {block}
if {test}:;    {block};    return {result}
if {test}:;    return {result};else:;    {block}
if {test}:;    raise {ValueError|IndexError|ZeroDivisionError|KeyError|OverflowError}('no')
for {new i} in range({bounds}):;    {loop i}
for {new i} in range({bounds}):;    {loop i}
for {new i} in range({bounds}):;    {loop i};else:;    {block}
for {new i} in range({bounds}):;    for {new j} in range({{i}|{i} + 1|{i}, 6|3|n % 5}):;\
        {loop j}
for {new i} in range({bounds}):;    {floats} {+=|-=} {number};    if {test}:;\
        {break|continue};    {loop i}
for {new i} in range({bounds}):;    if {test}:;        return {result};    {loop i}
for {new i} in range({bounds}):;    {loop i};    if {test}:;        break;else:;    {block}
for v in {x|y|z|p|x[::-1]|w[1]|x[{slice}]}:;    {floats} += v;    {block}
for {new i}, v in enumerate({x|y|z|p}):;    x[{i} % 6] = v {+|*} {number};    {block}
for u, v in zip({x|z|q}, {y|x|x[::-1]}):;    {floats} += u * v;    {block}
for {new i} in reversed(range({n % 7|4|20})):;    {loop i}
for r in w:;    r[{int} % 4] {+=|=} {number};    {block}
for r in w:;    r {+=|*=} {real};    {floats} += r.sum()
for v in pieces({number}):;    {floats} += v
for {new i} in [3, 0, {int}]:;    x[{i} % 6] += {number}
{new t} = 0;while {t} < {n|5|20} and {test}:;    {t} += 1;    {loop t}
{new t} = 0;while {t} < {n|5|20}:;    {t} += 1;    if {test}:;\
        {break|continue|return {result}};    {loop t};else:;    {block}
{new t} = {n|9|20};while {t}:;    {t} -= 1;    {loop t}
{new t} = 0;while True:;    {t} += 1;    if {t} > {n|3|18}{| or {test}}:;        break;\
    {loop t}
""",
    "block": """
{line}
{line};{line}
{line};{line};{line}
{nest}
{line};{nest}
""",
    "bounds": """
n
{n % 7|3|5|20|17}
1, n
n, 0, -1
{int} % 6
{int} % 3, {int} % 9
5, -2, {-1|-2|-3}
0, n, {2|3}
{len(x)|len(z)|x.shape[0]}
{int}, {int}
""",
    "result": """
a, b, c, k, m, z.sum(), q, p, d, o, e
""",
}
"""Alternatives by the name that stands for them, in braces, one a line; ``;`` ends a line of the
program. What has no name is a choice between texts: ``{+|-}``. ``{new i}`` is a new variable, and
``{i}`` the newest of that letter;\
 ``{loop i}`` is a block in which it is an int. Only a ``{known}``
block, of control flow that no values of arrays decide, has statements of that name: they change
lists, objects and dicts, or bind names to other arrays. The first three alternatives of expressions
are their leaves."""
