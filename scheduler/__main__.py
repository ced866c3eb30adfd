"""`python -m scheduler` is the program `dra`."""

from scheduler.cli.main import main

if __name__ == "__main__":
    main()
