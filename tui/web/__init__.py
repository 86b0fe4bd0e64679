"""The panel in a browser: access, one panel process for each page, and its driver."""
