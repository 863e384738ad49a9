"""`python -m nacre`: the same program as `nacre`."""

from nacre.cli.main import main

if __name__ == "__main__":
    main()
