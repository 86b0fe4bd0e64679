"""The operating system: files, locks, processes, names of host and boot. Standard library only."""
