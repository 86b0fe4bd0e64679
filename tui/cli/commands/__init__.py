"""The flags and the help of every command, a file each topic; what they do is imported when one
is chosen.
"""
