"""The other end of a link: a reader of this machine's runs that may die at any moment."""
