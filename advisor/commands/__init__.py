"""One module per command area: click options in, one call, rendered text out."""
