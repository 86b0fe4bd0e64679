"""What Textual leaves to the terminal: drivers, escape sequences, job control."""
