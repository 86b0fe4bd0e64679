"""The guides, each as the steps it has from top to bottom, with its own names and numbers.

A step is a function that gives commands in the guide's checkout and looks at what they answer.
Steps that train take minutes: they are taken by `python -m tests.guides --walk`.
"""
