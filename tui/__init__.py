"""Front ends: the Textual panel and the headless commands. Both thin."""
