"""`python -m advisor`, the same as the command `advisor`."""

from advisor.cli.app import main

if __name__ == "__main__":
    main()
