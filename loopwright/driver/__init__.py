"""From a module to code that runs: its passes, the schedules of its kernels, its program."""
