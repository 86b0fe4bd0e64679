"""`python -m fresnel_tui`, the same as the command `fresnel-tui`."""

from fresnel_tui import main

if __name__ == "__main__":
    main()
