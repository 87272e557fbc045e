"""A user's own benchmark files: any format in, `BenchmarkRun`s out.

One module and one pydantic model a format; `formats.read_results` finds the reader by the content
of a file, never by its name. Units are kept apart: inter-token latency (time between two stream
chunks) is not time per output token, an acceptance length counts the bonus token, counters are
cumulative. What it does not know: which launch produced a file (see `advice.ab_test`).
"""
