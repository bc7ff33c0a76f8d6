"""``python -m twigcast``: the command line, where the script is not on the path."""

from twigcast.cli import main

if __name__ == "__main__":
    main()
