"""The flags and the help of every command, a file for each topic; nothing runs from here."""
