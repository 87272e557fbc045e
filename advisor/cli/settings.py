"""One module per command area: click options in, one call, rendered text out."""

# Named by the two main commands too: click keeps the help option of a command's first context,
# which may have no parent.
HELP = {"help_option_names": ["-h", "--help"]}
