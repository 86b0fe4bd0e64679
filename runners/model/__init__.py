"""The words of the project as types. Pure: nothing here starts, reads or measures anything."""
