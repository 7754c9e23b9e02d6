"""Every number of the search engine, with its name and its reason."""

from __future__ import annotations

from typing import Any

from ..ir.dataclass import dataclass
from .comparison import COMPARISON, ComparisonSettings

_BOOSTER: tuple[tuple[str, Any], ...] = (
    # Chosen by measuring: docs/measurements.md. Regression on ranks within the task.
    ("objective", "reg:squarederror"),
    ("eta", 0.1),
    ("max_depth", 4),
    ("min_child_weight", 2.0),  # a few fast candidates must be able to form a leaf
    # Each node sees three features of ten, each tree seven rows of ten, so that similar features
    # share the splits.
    ("subsample", 0.7),
    ("colsample_bynode", 0.3),
    ("lambda", 1.0),
    ("max_bin", 256),
    ("tree_method", "hist"),
    ("verbosity", 0),
)


@dataclass(frozen=True, slots=True)
class TuneSettings:
    """The settings of the tuner itself. The defaults are meant for a machine of 2-64 cores. Figures
    of those that were chosen by measuring are in docs/measurements.md."""

    # -- proposing
    epsilon: float = 0.1
    """Share of a batch that is samples: the model never learns about candidates it never picks."""
    parents: int = 4
    """Measured candidates whose neighbours are tried."""
    spare_batches: int = 5
    """Batches of the best rows that are gone through for one batch of different nests: knobs mean
    nothing in many rows, such as those of threads on one core."""

    near: int = 48
    """Schedules near to the fastest, or to the defaults, that the model is asked about, and as many
    near to those."""
    random: int = 64
    """Samples that it is asked about."""
    quick_candidates: int = 8
    """Candidates of a kernel that the budget "quick" measures: the default schedule and those the
    model rates best."""
    quick_seconds: float = 0.45
    """Seconds from which on no more of them are begun; those under way and the race come on top."""

    # -- cost model
    booster: tuple[tuple[str, Any], ...] = _BOOSTER
    """Parameters of XGBoost."""
    boosting_rounds: int = 80
    """Trees per training, from nothing or on top of the shipped model; more rank no better."""
    shipped_booster: tuple[tuple[str, Any], ...] = (
        ("max_depth", 7),
        ("min_child_weight", 6.0),
        ("eta", 0.12),
    )
    """Parameters that differ for the shipped model, which is trained on thousands of rows of many
    tasks."""
    shipped_rounds: int = 60
    """Trees of each member of the shipped model; more would make the file larger than a
    megabyte."""
    members: int = 4
    """Members of the shipped model. Each leaves out other tasks: where they disagree, the model has
    learnt from nothing alike."""
    rank_share: float = 0.65
    """Share of ranks in the labels of the shipped model; the rest is the distance to the best."""
    near_scale: float = 0.2
    """Relative distance to the best at which half of the label has fallen to 1 / e: pairs of good
    schedules weigh more than pairs of bad ones."""
    label_doublings: float = 3.0
    """Doublings of the best time beyond which labels call all schedules equally slow."""
    ridge: float = 1e-2
    """Ridge of the linear model, as a share of the rows: features are standardised."""
    model_threads: int = 1
    """Threads of XGBoost: on 1,000 rows two gain little on idle cores, and on busy ones their
    spinning barriers make milliseconds seconds."""
    training_rows: int = 4000
    """Most rows for training: all of the task at hand, then the newest of the others."""
    least_training_rows: int = 8
    """With fewer rows the model predicts nothing and candidates are taken as they come."""

    # -- measuring
    comparison: ComparisonSettings = COMPARISON
    """Thresholds of every comparison of two candidates."""
    least_sample_seconds: float = 2e-4
    """A sample repeats the kernel until it lasts this long: 10,000 ticks of the clock."""
    least_samples: int = 3
    """Samples every candidate gets that may win."""
    least_losing_samples: int = 2
    """Samples a candidate has before it is dropped as out of contention; of calls as long as
    ``telling_seconds`` one."""
    contender_samples: int = 12
    """Most samples of a candidate."""
    telling_seconds: float = 1e-3
    """A single call that lasts this long says as much as a sample."""
    measure_seconds: float = 0.02
    """Time spent on the samples of a contender before they are called enough."""
    patience: float = 0.01
    """Seconds for which interrupted measurements are repeated: on a busy machine an interruption
    makes a call many times slower."""
    obvious_seconds: float = 0.1
    """A hopeless first call that takes this long is not repeated at all."""
    timeout_factor: float = 20.0
    """A single call may take this many times the best so far before the worker is killed."""
    least_timeout: float = 1.0
    """Least seconds of a candidate, for loading and checking on a busy machine."""
    first_timeout: float = 10.0
    """Seconds of a candidate while no time of the task is known."""
    build_timeout: float = 10.0
    """Seconds to build a candidate; most take 10 ms."""
    build_memory: int = 4 << 30
    """Bytes of address space a builder may add: a kernel's IR takes a few MB."""
    run_memory: int = 1 << 30
    """Bytes of address space a runner may add to what the operands need."""
    worker_lives: int = 2000
    """Candidates after which a worker is replaced, since loaded code is never released
    completely."""
    leaders: int = 6
    """Schedules that race before one is called the best."""
    leader_rounds: int = 8
    """Rounds between two tests of the confidence."""
    most_leader_rounds: int = 48
    """Rounds after which a race ends however close it is."""
    settling_seconds: float = 2e-3
    """Calls before a sample of a race: where operands about fill a cache, its content changes for
    milliseconds."""
    race_places: int = 16
    """Placements in memory between which the rounds of a race alternate
    (``measure/placement.py``)."""
    race_seconds: float = 2.0
    """No more rounds begin after this time: a few rounds of slow kernels are conclusive."""
    other_cache_rounds: int = 3
    """Rounds with warm caches of kernels in programs, for the record."""
    leader_share: float = 0.08
    """Share of the budget reserved for the race."""

    # -- checking
    reference_work: int = 20_000_000
    """Scalar evaluations up to which the whole reference is evaluated by NumPy."""
    reference_points: int = 400
    """Output elements evaluated where the whole reference would be too slow."""

    # -- stopping early
    least_gain: float = 0.01
    """Share of a call that more slices must be expected to gain; 0: the whole budget is spent."""

    # -- across kernels
    warm_up_rounds: int = 1
    """Batches every task gets of which the time in the program is not known, before the scheduler
    compares expected gains."""
    scheduler_batch: int = 16
    """Candidates per slice of a task: few, so that a short budget reaches every task."""
    gain_window: int = 2
    """Slices looked back on to see what a task has been gaining."""

    gain_shares: tuple[float, ...] = (0.2, 0.1, 0.05, 0.03)
    """Share of the possible gain that a task's first slices gain, one after the other, on average;
    in later ones it falls as the square of their number."""
    tried_share: float = 0.008
    """Share of the time of all tasks from which on a kernel is tried, whatever its expected
    gain."""
    gain_trust: float = 3.0
    """Weight of ``gain_shares``, in time slices observed in this run."""
    first_slice_share: float = 0.3
    """All first slices together may take this share of the budget; with many kernels and a short
    budget they have fewer candidates."""
    least_first_slice: int = 6
    """The fewest candidates of a first slice."""

    # -- in the program
    graph_share: float = 0.2
    """Share of the budget for choices in the graph, measured both ways before kernels are tuned."""
    graph_seconds: float = 30.0
    """Most seconds for them: a network has some tens of choices, few programs have as many."""
    comparison_share: float = 0.06
    """Share of the budget for the last comparison: the whole program as it was and as it is."""
    comparison_seconds: float = 6.0
    """Most seconds for it; a program of 30 ms then runs a hundred times each way."""

    # -- log
    sync_seconds: float = 1.0
    """Longest time until an acknowledged record is synced to disk (a power cut loses more; kill -9
    loses none)."""


DEFAULT_SETTINGS = TuneSettings()
