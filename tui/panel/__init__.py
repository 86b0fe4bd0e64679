"""The panel: Textual screens and widgets over one snapshot a second."""
