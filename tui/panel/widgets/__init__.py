"""The panes of the main screen. A pane announces; its screen decides."""
