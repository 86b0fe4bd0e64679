"""The log pane: a live log at any size, searched, filtered, picked from."""
