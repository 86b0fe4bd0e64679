"""One queue over several machines: which of them a run starts on, and what waits for one."""
