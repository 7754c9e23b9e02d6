"""Every number of the search engine, with its name and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .comparison import COMPARISON, ComparisonSettings

__all__ = ["DEFAULT_SETTINGS", "TuneSettings"]


_BOOSTER: tuple[tuple[str, Any], ...] = (
    # Regression on ranks within the task (training.rank_labels): on eleven matrix products, each
    # held out once, 91.0 % of the pairs and recall@30 0.67; rank:pairwise 89.8 % and 0.67 in half
    # as much time again, rank:ndcg 85.8 % and 0.64.
    ("objective", "reg:squarederror"),
    ("eta", 0.1),
    # Shallow trees, more of them: depth 4 against 7 raised recall@30 from 0.30 to 0.47 on the
    # synthetic space, and trains in two thirds of the time.
    ("max_depth", 4),
    ("min_child_weight", 2.0),  # a few fast candidates must be able to form a leaf
    # Each node sees three features of ten, each tree seven rows of ten, so that
    # alike features share the splits.
    # With the smaller steps 0.1-0.2 points of pairs more, and 1.7 of recall@30.
    ("subsample", 0.7),
    ("colsample_bynode", 0.3),
    ("lambda", 1.0),
    ("max_bin", 256),  # 64 lost a point of pairwise accuracy on a product not seen
    ("tree_method", "hist"),
    ("verbosity", 0),
)


@dataclass(frozen=True, slots=True)
class TuneSettings:
    """The knobs of the tuner itself. The defaults are meant for a machine of 2-64 cores."""

    # -- proposing
    population: int = 1024
    """Rows alive in one generation. On ten recorded kernels searches with 2,048 ended no better
    (0.3 % worse, 95 %: 0.8 worse to 0.2 better), and took twice as long to propose; with 512 a
    search of the large synthetic space stopped early at 1.12 times the best."""
    generations: int = 4
    """Rounds of selection between two batches; more moves the population only little."""
    elite_share: float = 0.25
    """Share of a generation that may survive and have children."""
    fresh_share: float = 0.15
    """Share of every generation drawn anew, so that a population never closes on itself."""
    epsilon: float = 0.02
    """Share of a batch picked at random: what the model would never ask for, it never learns. More
    gained nothing (docs/tuning.md)."""
    annealing_chains: int = 256
    """Random walks that simulated annealing keeps at once."""
    annealing_steps: int = 24
    """Steps of each walk between two batches."""
    annealing_cooling: float = 0.93
    """Factor on the temperature per step; 24 steps end at a sixth of where they began."""

    # -- cost model
    booster: tuple[tuple[str, Any], ...] = _BOOSTER
    """Parameters of XGBoost."""
    boosting_rounds: int = 80
    """Trees per training, from nothing or on top of the model that ships. After 64 candidates of
    each of 16 kernels, 84.5 % of the pairs of the others are in order, with 160 trees 84.3 % and
    with 40 84.8 %; searches with 160 ended 0.6 % better than with 40, in twice the time."""
    shipped_booster: tuple[tuple[str, Any], ...] = (
        ("max_depth", 7),
        ("min_child_weight", 6.0),
        ("eta", 0.06),
    )
    """What is different for the model that ships: it sees thousands of rows of many tasks. On tasks
    held out 82.0 % of the pairs in order; with depth 5 and 160 trees 81.3 %, with depth 8 and 400
    trees 82.2 %."""
    shipped_rounds: int = 250
    """Its trees; more would make the file larger than a megabyte."""
    model_threads: int = 1
    """Threads XGBoost may use: on 1,000 rows two gain little on idle cores, and on busy ones the
    spinning barriers make seconds of milliseconds."""
    training_rows: int = 4000
    """Rows trained on at most: all of the task at hand, then the newest of the others."""
    least_training_rows: int = 8
    """With fewer rows the model says nothing and candidates are taken as they come."""

    # -- measuring
    comparison: ComparisonSettings = COMPARISON
    """What counts as equal, better, and not worth another look."""
    least_sample_seconds: float = 2e-4
    """A sample repeats the kernel until it lasts this long: 10,000 ticks of the clock."""
    least_samples: int = 3
    """Samples every candidate gets that may win."""
    least_losing_samples: int = 2
    """Samples a candidate has before it is dropped because it is no contender; of calls as long as
    ``telling_seconds`` one."""
    contender_samples: int = 12
    """Samples of a candidate at most."""
    telling_seconds: float = 1e-3
    """A single call that lasts this long says as much as a sample."""
    measure_seconds: float = 0.02
    """Time spent on the samples of a contender before they are called enough."""
    patience: float = 0.01
    """Measurements during which the core was taken away are repeated for this long. Without that, a
    busy machine made single calls of 62 us look like 12 ms, and two screenings of the same
    candidates put only 87 % of the pairs in one order."""
    obvious_seconds: float = 0.1
    """A first call that is hopeless and takes this long is not repeated at all."""
    timeout_factor: float = 20.0
    """A single call may take this many times the best so far before the worker is killed."""
    least_timeout: float = 1.0
    """Seconds a candidate has at least, for loading and checking, on a busy machine."""
    first_timeout: float = 10.0
    """Seconds a candidate has while nothing is known about the task."""
    build_timeout: float = 10.0
    """Seconds to build a candidate; a usual one takes 10 ms."""
    build_memory: int = 4 << 30
    """Bytes of address space a builder may add: a kernel's IR takes a few MB."""
    run_memory: int = 1 << 30
    """Bytes of address space a runner may add to what the operands need."""
    worker_lives: int = 2000
    """Candidates after which a worker is replaced, since loaded code is never all given back."""
    leaders: int = 6
    """Schedules re-measured, interleaved, before one is called best."""
    leader_rounds: int = 8
    """Rounds in which every leader is measured once, between two looks at the confidence."""
    most_leader_rounds: int = 48
    """Rounds after which a race ends however close it is."""
    settling_seconds: float = 2e-3
    """Calls before a sample of a race: where operands about fill a cache, what stays in it changes
    for milliseconds (35 us became 30 when one kernel ran alone for 16 ms)."""
    race_places: int = 16
    """Places in memory between which the rounds of a race change (see places.py)."""
    race_seconds: float = 2.0
    """No more rounds are begun after this time: of slow kernels a few rounds are telling."""
    other_cache_rounds: int = 3
    """Rounds in the cache mode that does not count, for the record."""
    cold_calls: int = 8
    """Calls of a cold sample at most: each needs a flush, which can take longer than the call."""
    leader_share: float = 0.08
    """Share of the budget kept back for the leaders."""

    # -- checking
    reference_work: int = 20_000_000
    """Scalar evaluations up to which the whole reference is evaluated by NumPy."""
    reference_points: int = 400
    """Output elements evaluated where the whole reference would be too slow."""

    # -- stopping early
    least_gain: float = 0.01
    """A slice expected to gain less than this share of the best time is not worth it; 0: no matter
    how little is expected, the budget is spent."""
    small_gain_slices: int = 3
    """Such slices in a row, in which nothing was gained either, before tuning stops."""
    gain_memory: int = 256
    """Candidates looked back on to see what the model's scores mean in seconds."""

    # -- across kernels
    warm_up_rounds: int = 1
    """Batches every task gets of which the time in the program is not known, before the scheduler
    compares expected gains."""
    scheduler_batch: int = 16
    """Candidates per slice of a task: few, so that a short budget reaches every task."""
    gain_window: int = 2
    """Slices looked back on to see what a task has been gaining."""

    gain_shares: tuple[float, ...] = (0.2, 0.1, 0.05, 0.03)
    """The share of what the machine allows to gain that a task's first slices gain, one after the
    other; of later ones it falls as the square of their number. So it was, on average, with the
    kernels of three programs (``bench/landscapes``)."""
    gain_trust: float = 3.0
    """That prior counts as much as this many slices of the same number in this run."""
    first_slice_share: float = 0.3
    """All first slices together may take this share of the budget; with many kernels and a short
    budget they have fewer candidates."""
    least_first_slice: int = 6
    """The fewest candidates of a first slice."""

    # -- in the program
    graph_share: float = 0.15
    """Share of the budget for choices in the graph, measured both ways before kernels are tuned."""
    graph_seconds: float = 12.0
    """The most it takes: a network has some tens of choices, few programs hold them all."""
    comparison_share: float = 0.06
    """Share of the budget for the last comparison: the whole program as it was and as it is."""
    comparison_seconds: float = 6.0
    """The most it takes; a program of 30 ms then runs a hundred times each way."""

    # -- log
    sync_seconds: float = 1.0
    """Longest time an acknowledged record waits for fdatasync (a power cut; kill -9 loses none)."""


DEFAULT_SETTINGS = TuneSettings()
