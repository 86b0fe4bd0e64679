"""The panel's screens and dialogs."""
