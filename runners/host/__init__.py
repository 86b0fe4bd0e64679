"""The operating system: whole files, locks, marked processes, the names of this host and boot.

Standard library only: the supervisor imports it, and the supervisor stays small.
"""
