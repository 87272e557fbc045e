"""A user's own benchmark files: any format in, told by its content, `BenchmarkRun`s out."""
