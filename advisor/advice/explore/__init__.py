"""Many questions at once: curves over loads, comparisons, and layouts for several workloads."""
