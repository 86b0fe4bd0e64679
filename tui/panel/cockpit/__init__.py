"""The main screen: its keys, what they do on runs and machines, and the parts they share."""
