"""What measures: step-cost sweeps of a real engine, and the pre-registered predictions that they are held against."""
