"""Programs as loops in C: arguments first (an array is a pointer and its length), then results."""

from __future__ import annotations

__all__ = ["IN_C"]

_SCALARS = r"""
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef int64_t I;
typedef double F;

void collatz(I limit, I *out) {
  I best = 0;
  for (I start = 1; start < limit; start++) {
    I n = start, count = 0;
    while (n != 1) { n = n % 2 == 0 ? n / 2 : 3 * n + 1; count++; }
    if (count > best) best = count;
  }
  *out = best;
}
void gcd(I limit, I *out) {
  I total = 0;
  for (I i = 1; i < limit; i++) {
    I a = limit, b = i;
    while (b != 0) { I r = a % b; a = b; b = r; }
    total += a;
  }
  *out = total;
}
void bisection(I count, F *out) {
  F total = 0;
  for (I k = 0; k < count; k++) {
    F low = 0, high = 1.0 + k;
    while (high - low > 1e-9) {
      F middle = 0.5 * (low + high);
      if (middle * middle * middle + middle < k) low = middle; else high = middle;
    }
    total += low;
  }
  *out = total;
}
void newton(I count, F *out) {
  F total = 0;
  for (I k = 1; k < count; k++) {
    F x = k, change = 1;
    while (fabs(change) > 1e-12 * x) {
      change = (x * x * x - k) / (3.0 * x * x);
      x -= change;
    }
    total += x;
  }
  *out = total;
}
void mandelbrot(F *xs, I width, F *ys, I height, I *out) {
  for (I row = 0; row < height; row++)
    for (I column = 0; column < width; column++) {
      F re = 0, im = 0;
      I count = 0;
      while (re * re + im * im < 4 && count < 100) {
        F next = re * re - im * im + xs[column];
        im = 2 * re * im + ys[row];
        re = next;
        count++;
      }
      out[row * width + column] = count;
    }
}
void first_pair(I *values, I n, I target, I *out_i, I *out_j) {
  for (I i = 0; i < n; i++)
    for (I j = i + 1; j < n; j++)
      if (values[i] + values[j] == target) { *out_i = i; *out_j = j; return; }
  *out_i = *out_j = n;
}
void binary_search(I *values, I n, I *keys, I count, I *out) {
  for (I k = 0; k < count; k++) {
    I low = 0, high = n;
    while (low < high) {
      I middle = (low + high) / 2;
      if (values[middle] < keys[k]) low = middle + 1; else high = middle;
    }
    out[k] = low;
  }
}
void metropolis(I count, I *out_accepted, F *out_variance) {
  I seed = 42, accepted = 0;
  F x = 0, total = 0;
  for (I i = 0; i < count; i++) {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    F proposal = x + 2.0 * (seed / 2147483648.0) - 1.0;
    seed = (seed * 1103515245 + 12345) % 2147483648;
    if (seed / 2147483648.0 < exp(0.5 * (x * x - proposal * proposal))) {
      x = proposal;
      accepted++;
    }
    total += x * x;
  }
  *out_accepted = accepted;
  *out_variance = total / count;
}
void euler(I count, F *out_x, F *out_y, F *out_z) {
  F x = 1, y = 1, z = 1;
  for (I i = 0; i < count; i++) {
    F a = x + 1e-3 * 10.0 * (y - x), b = y + 1e-3 * (x * (28.0 - z) - y);
    z = z + 1e-3 * (x * y - 8.0 / 3.0 * z);
    x = a;
    y = b;
  }
  *out_x = x; *out_y = y; *out_z = z;
}
"""

_RECURSION = r"""
static I factorial_of(I n) { return n > 1 ? n * factorial_of(n - 1) : 1; }
void factorial(I count, I *out) {
  I total = 0;
  for (I i = 0; i < count; i++) total += factorial_of(i % 15);
  *out = total;
}
static I fibonacci_of(I n) { return n < 2 ? n : fibonacci_of(n - 1) + fibonacci_of(n - 2); }
void fibonacci(I n, I *out) { *out = fibonacci_of(n); }
static I ackermann_of(I m, I n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann_of(m - 1, 1);
  return ackermann_of(m - 1, ackermann_of(m, n - 1));
}
void ackermann(I m, I n, I *out) { *out = ackermann_of(m, n); }
static bool is_odd(I n);
static bool is_even(I n) { return n == 0 ? true : is_odd(n - 1); }
static bool is_odd(I n) { return n == 0 ? false : is_even(n - 1); }
void parity(I count, I *out) {
  I total = 0;
  for (I i = 0; i < count; i++) total += is_even(i);
  *out = total;
}
static I tree_sum_below(I node, I *left, I *right, I *values) {
  if (node < 0) return 0;
  return values[node] + tree_sum_below(left[node], left, right, values)
                      + tree_sum_below(right[node], left, right, values);
}
void tree_sum(I *left, I n, I *right, I m, I *values, I l, I *out) {
  *out = tree_sum_below(0, left, right, values);
}
static F peak(F a) { return 1.0 / (1e-4 + a * a); }
static F rule(F a, F b) {
  F middle = 0.5 * (a + b);
  return (b - a) / 6.0 * (peak(a) + peak(b) + 4.0 * peak(middle));
}
static F simpson_between(F a, F b, F whole) {
  F middle = 0.5 * (a + b), left = rule(a, middle), right = rule(middle, b);
  if (fabs(left + right - whole) < 1e-12) return left + right;
  return simpson_between(a, middle, left) + simpson_between(middle, b, right);
}
void simpson(F high, F *out) { *out = simpson_between(-1.0, high, rule(-1.0, high)); }
"""

_ARRAYS = r"""
void edit_distance(I *a, I n, I *b, I m, I *out) {
  I *previous = malloc((m + 1) * sizeof(I)), *current = malloc((m + 1) * sizeof(I));
  for (I j = 0; j <= m; j++) previous[j] = j;
  for (I i = 0; i < n; i++) {
    current[0] = i + 1;
    for (I j = 0; j < m; j++) {
      I best = (current[j] < previous[j + 1] ? current[j] : previous[j + 1]) + 1;
      I other = previous[j] + (a[i] != b[j]);
      current[j + 1] = best < other ? best : other;
    }
    I *swap = previous; previous = current; current = swap;
  }
  *out = previous[m];
  free(previous);
  free(current);
}
void partition(F *in, I n, F *values, I *out_place) {
  memcpy(values, in, n * sizeof(F));
  F pivot = values[n - 1], swap;
  I place = 0;
  for (I j = 0; j < n - 1; j++)
    if (values[j] < pivot) {
      swap = values[place]; values[place] = values[j]; values[j] = swap;
      place++;
    }
  swap = values[place]; values[place] = values[n - 1]; values[n - 1] = swap;
  *out_place = place;
}
void insertion_sort(F *in, I n, F *values) {
  memcpy(values, in, n * sizeof(F));
  for (I i = 1; i < n; i++) {
    F value = values[i];
    I j = i;
    while (j > 0 && values[j - 1] > value) { values[j] = values[j - 1]; j--; }
    values[j] = value;
  }
}
void sieve(bool *in, I n, I *out) {
  bool *flags = malloc(n);
  memcpy(flags, in, n);
  for (I p = 2; p * p < n; p++)
    if (flags[p])
      for (I q = p * p; q < n; q += p) flags[q] = false;
  I total = 0;
  for (I i = 2; i < n; i++) total += flags[i];
  *out = total;
  free(flags);
}
void histogram(I *buckets, I n, F *weights, I m, F *out) {
  memset(out, 0, 64 * sizeof(F));
  for (I i = 0; i < n; i++) out[buckets[i]] += weights[i];
}
void floyd_warshall(F *in, I n, F *d) {
  memcpy(d, in, n * sizeof(F));
  I side = (I)(sqrt(n) + 0.5);
  for (I k = 0; k < side; k++)
    for (I i = 0; i < side; i++)
      for (I j = 0; j < side; j++) {
        F through = d[i * side + k] + d[k * side + j];
        if (through < d[i * side + j]) d[i * side + j] = through;
      }
}
void thomas(F *lower, I n, F *diagonal, I a, F *upper, I b, F *right, I c, F *x) {
  F *ratios = malloc(n * sizeof(F)), ratio = 0, value = 0, next = 0;
  for (I i = 0; i < n; i++) {
    F pivot = diagonal[i] - lower[i] * ratio;
    ratio = upper[i] / pivot;
    value = (right[i] - lower[i] * value) / pivot;
    ratios[i] = ratio;
    x[i] = value;
  }
  for (I i = n - 1; i >= 0; i--) x[i] = next = x[i] - ratios[i] * next;
  free(ratios);
}
void prefixes(F *decays, I n, F *values, I m, F *sums, F *peaks, F *smooth) {
  F total = 0, peak = -INFINITY, mean = 0;
  for (I i = 0; i < n; i++) {
    total += values[i];
    if (values[i] > peak) peak = values[i];
    mean = decays[i] * mean + values[i];
    sums[i] = total; peaks[i] = peak; smooth[i] = mean;
  }
}
"""

IN_C = _SCALARS + _RECURSION + _ARRAYS
"""One translation unit with a function for each program that it has."""
