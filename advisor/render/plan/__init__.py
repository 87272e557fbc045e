"""A plan for several workloads as text, JSON and a folder of files."""
